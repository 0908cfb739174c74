"""The response to a refused request has a row for each row of the request, and the error code in
every place that the version has for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog_protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.schema import schema_of
from oncelog_protocol.types import Array
from oncelog_server.faults.refused_responses import NOT_REFUSED, refused_response

CODE = ErrorCode.NOT_COORDINATOR
REFUSED = [
    (ApiKey(key), version)
    for key, api in APIS.items()
    if key not in NOT_REFUSED
    for version in api.versions
]


def filled(cls: type) -> Any:
    """Return a message with one element in each array."""
    values: dict[str, Any] = {}
    for field in schema_of(cls).fields:
        if isinstance(field.type, Array):
            inner = field.type.of
            if isinstance(inner, type) and hasattr(inner, "__schema__"):
                values[field.name] = [filled(inner)]
            else:
                values[field.name] = ["x" if getattr(inner, "name", "") == "string" else 7]
    return cls(**values)


def codes_of(message: Any, version: int) -> Iterator[int]:
    """Yield every error code of a response, at any depth."""
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if not field.present(version):
            continue
        if field.name in ("error_code", "partition_error_code"):
            yield value
        elif isinstance(field.type, Array):
            for element in value or ():
                if hasattr(type(element), "__schema__"):
                    yield from codes_of(element, version)


def answered(request: Any, api: ApiKey, version: int) -> Any:
    """Return the response as a client decodes it."""
    return decode(
        APIS[api].response, version, encode(refused_response(api, version, request, CODE), version)
    )


@pytest.mark.parametrize(("api", "version"), REFUSED)
def test_every_error_code_of_every_api_and_version_is_set(api: ApiKey, version: int) -> None:
    codes = set(codes_of(answered(filled(APIS[api].request), api, version), version))
    assert codes == {CODE}


@pytest.mark.parametrize("api", sorted(NOT_REFUSED))
def test_an_api_without_such_a_response_is_a_key_error(api: ApiKey) -> None:
    with pytest.raises(KeyError, match=api.name):
        refused_response(api, 0, filled(APIS[api].request), CODE)


@pytest.mark.parametrize("version", [9, 13])
def test_a_refused_produce_names_its_partitions_and_has_no_offset(version: int) -> None:
    topic_id = b"i" * 16
    data = [PartitionProduceData(3, b""), PartitionProduceData(5, b"")]
    request = ProduceRequest(
        acks=-1, topic_data=[TopicProduceData("t", topic_id, partition_data=data)]
    )
    (topic,) = answered(request, ApiKey.PRODUCE, version).responses
    assert (topic.name, topic.topic_id) == (("t", bytes(16)) if version == 9 else ("", topic_id))
    assert [(row.index, row.base_offset) for row in topic.partition_responses] == [(3, -1), (5, -1)]


def test_the_partitions_of_a_group_get_the_code_too() -> None:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[4])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])
    (group,) = answered(request, ApiKey.OFFSET_FETCH, 9).groups
    (topic,) = group.topics
    (row,) = topic.partitions
    assert (group.group_id, topic.name, row.partition_index) == ("g", "t", 4)
    assert (group.error_code, row.error_code, row.committed_offset) == (CODE, CODE, -1)


@pytest.mark.parametrize("version", [3, 4])
def test_partitions_that_are_plain_numbers_become_rows(version: int) -> None:
    topics = [AddPartitionsToTxnTopic("t", [1, 2])]
    request = AddPartitionsToTxnRequest(
        transactions=[AddPartitionsToTxnTransaction("x", topics=topics)],
        v3_and_below_topics=topics,
    )
    answer = answered(request, ApiKey.ADD_PARTITIONS_TO_TXN, version)
    if version == 3:
        (topic,) = answer.results_by_topic_v3_and_below
    else:
        (transaction,) = answer.results_by_transaction
        assert transaction.transactional_id == "x"
        (topic,) = transaction.topic_results
    assert [row.partition_index for row in topic.results_by_partition] == [1, 2]


def test_each_coordinator_key_becomes_a_row_without_a_node() -> None:
    request = FindCoordinatorRequest(coordinator_keys=["a", "b"])
    rows = answered(request, ApiKey.FIND_COORDINATOR, 4).coordinators
    assert [(row.key, row.node_id, row.port) for row in rows] == [("a", -1, -1), ("b", -1, -1)]
