"""Every API in every version on a real connection, and unknown APIs and versions."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.apis import APIS, BETWEEN_BROKERS, ApiKey
from oncelog_protocol.codecs import decode
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
from oncelog_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.conformance.conftest import Target

# The name and version of the client software. Kafka refuses an ApiVersions request with empty ones
# (KIP-511).
CLIENT = ("conformance", "1")
# Versions that Kafka 4.3.1 does not have. Our message tables are those of Kafka 4.4.
NEWER = {
    ApiKey.API_VERSIONS: 5,
    ApiKey.TXN_OFFSET_COMMIT: 6,
    ApiKey.DELETE_GROUPS: 3,
    ApiKey.INIT_PRODUCER_ID: 6,
}


# In an ACL filter: every resource type, every operation or every permission.
ANY = 1


FOR_CLIENTS = sorted(APIS.keys() - BETWEEN_BROKERS)


def api_versions(wire: Wire, version: int = 4) -> ApiVersionsResponse:
    """Return the versions that the broker announces."""
    response: ApiVersionsResponse = wire.call(ApiVersionsRequest(*CLIENT), version)
    return response


def test_the_broker_announces_all_our_apis_and_versions(target: Target, wire: Wire) -> None:
    """The broker announces every API and version of the message tables. It announces Produce from
    version 0, for librdkafka."""
    spoken = {
        api_key.api_key: (api_key.min_version, api_key.max_version)
        for api_key in api_versions(wire).api_keys
    }
    assert not BETWEEN_BROKERS & spoken.keys()
    for key in FOR_CLIENTS:
        api = APIS[key]
        oldest, latest = spoken[key]
        assert oldest <= api.oldest, api.name
        newer = target.name == "kafka" and NEWER.get(api.key) == api.latest
        assert latest >= api.latest - newer, api.name
    assert spoken[ApiKey.PRODUCE][0] == 0


def test_the_finalized_transaction_version_is_2(wire: Wire) -> None:
    """Java clients 4.x and franz-go use transactions of version 2 (KIP-890) only if the ApiVersions
    response has `transaction.version` 2."""
    response = api_versions(wire, 3)
    levels = {
        finalized_feature.name: finalized_feature.max_version_level
        for finalized_feature in response.finalized_features
    }
    assert levels["transaction.version"] == 2
    assert response.finalized_features_epoch >= 0


@pytest.mark.parametrize("key", FOR_CLIENTS, ids=lambda key: APIS[key].name)
def test_every_version_is_answered(target: Target, key: int) -> None:
    """A request with default values gets a response that can be decoded to its last byte."""
    api = APIS[key]
    request: Any = ApiVersionsRequest(*CLIENT) if key == ApiKey.API_VERSIONS else api.request()
    if key == ApiKey.PRODUCE:
        request.acks = 1
    # Kafka sends no response to a request without a transaction.
    if key == ApiKey.ADD_PARTITIONS_TO_TXN:
        request.transactions = [AddPartitionsToTxnTransaction(transactional_id="none")]
    if key == ApiKey.DESCRIBE_ACLS:  # Kafka closes the connection for a filter with an unknown part
        request.resource_type_filter = request.operation = request.permission_type = ANY
    with Wire(target.address) as wire:
        latest = {api_key.api_key: api_key.max_version for api_key in api_versions(wire).api_keys}[
            key
        ]
        for version in range(api.oldest, min(api.latest, latest) + 1):
            assert isinstance(wire.call(request, version), api.response), version


def test_h10_api_versions_of_a_future_version_returns_the_supported_versions(wire: Wire) -> None:
    """KIP-511: only ApiVersions gets a response, in version 0 with UNSUPPORTED_VERSION."""
    header = struct.pack(">hhihB", ApiKey.API_VERSIONS, 99, 7, -1, 0)
    wire.socket.sendall(struct.pack(">i", len(header) + 5) + header + b"other")
    with wire.socket.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        body = stream.read(size)
    assert struct.unpack_from(">ih", body) == (7, ErrorCode.UNSUPPORTED_VERSION)
    response = decode(ApiVersionsResponse, 0, body[4:])
    assert ApiKey.API_VERSIONS in [api_key.api_key for api_key in response.api_keys]


@pytest.mark.parametrize(
    ("key", "version"),
    [(ApiKey.METADATA, 99), (ApiKey.PRODUCE, 2), (ApiKey.FETCH, 3), (999, 0), (-1, 0)],
)
def test_h10_an_unknown_api_or_version_closes_the_connection(
    wire: Wire, key: int, version: int
) -> None:
    """A client that sends an unknown API or version could not read any response."""
    header = struct.pack(">hhih", key, version, 1, -1)
    wire.socket.sendall(struct.pack(">i", len(header)) + header + bytes(20))
    assert wire.is_closed()


def test_metadata_creates_a_topic_if_the_request_allows_it(wire: Wire, name: str) -> None:
    """`auto.create.topics.enable` is on. A client may forbid the creation, and an invalid name is
    an error."""

    def look(topic: str, *, create: bool) -> int:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=create
        )
        code: int = wire.call(request, 9).topics[0].error_code
        return code

    assert look(name, create=False) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look("bad/name", create=True) == ErrorCode.INVALID_TOPIC_EXCEPTION
    seen = {look(name, create=True) for _ in range(2)}
    missing = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}
    assert seen <= {ErrorCode.NONE, *missing}


def test_metadata_describes_all_topics_for_null_and_no_topic_for_an_empty_list(
    wire: Wire, topic: str
) -> None:
    """Null means all topics, and an empty list no topic. Version 0 has no null, so there an empty
    list means all topics."""
    for version, topics in ((1, None), (9, None), (0, [])):
        response = wire.call(MetadataRequest(topics=topics), version)
        assert topic in [topic.name for topic in response.topics], version
    response = wire.call(MetadataRequest(topics=[]), 9)
    assert response.topics == []
    assert response.controller_id == response.brokers[0].node_id == 1
    assert response.cluster_id
