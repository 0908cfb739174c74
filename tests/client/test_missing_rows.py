"""A response without a requested row is an error, for every API."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import oncelog_client
from oncelog_client import (
    Admin,
    AlterConfigOp,
    CommitOutcomeUnknown,
    ConfigResource,
    Consumer,
    ConsumerGroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ResourceType,
    TopicPartition,
)
from oncelog_client.admin import AbortTransactionSpec
from oncelog_client.core.metadata import Metadata
from oncelog_client.core.missing_rows import RULES, missing_rows
from oncelog_client.errors import AbortableError, RetriableError
from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.types import uuid_to_string
from tests.client.scripted_broker import TOPIC, Script, ScriptedBroker, messages, simulated

SERVER = "broker:9092"
PLACE = TopicPartition(TOPIC, 0)
QUICK: Any = {"request_timeout_ms": 700, "retry_backoff_ms": 20, "retry_backoff_max_ms": 100}


def _empty(api: ApiKey) -> Any:
    """Return a response without error and without rows."""
    return APIS[api].response()


def _leaves_out(api: ApiKey) -> Script:
    return lambda asked, request: _empty(api) if asked is api else None


def _requests_of_the_client() -> set[ApiKey]:
    for module in pkgutil.walk_packages(oncelog_client.__path__, "oncelog_client."):
        if not module.name.startswith(("oncelog_client.spark", "oncelog_client.cli")):
            importlib.import_module(module.name)
    by_request = {api.request: ApiKey(api.key) for api in APIS.values()}
    import sys

    return {
        by_request[value]
        for name, module in sys.modules.items()
        if name.startswith("oncelog_client")
        for value in vars(module).values()
        if isinstance(value, type) and value in by_request
    }


def test_every_api_that_the_client_sends_has_a_rule_for_missing_rows() -> None:
    assert _requests_of_the_client() <= set(RULES)


# -- producer


async def _transaction(commit: Callable[[Producer], Awaitable[None]]) -> Producer:
    producer = Producer(
        SERVER,
        transactional_id="x",
        max_block_ms=3_000,
        delivery_timeout_ms=1_500,
        linger_ms=0,
        **QUICK,
    )
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    await commit(producer)
    return producer


@pytest.mark.parametrize(
    ("api", "transaction_version"),
    [
        (ApiKey.ADD_PARTITIONS_TO_TXN, 0),
        (ApiKey.PRODUCE, 0),
        (ApiKey.PRODUCE, 2),
    ],
)
def test_a_transaction_is_not_committed_without_its_records(
    api: ApiKey, transaction_version: int
) -> None:
    broker = ScriptedBroker(_leaves_out(api), transaction_version=transaction_version)

    async def send(producer: Producer) -> None:
        record = await producer.send(TOPIC, b"v")
        with pytest.raises(AbortableError):
            await producer.commit_transaction()
        with pytest.raises(KafkaError):
            await record

    async def scenario() -> None:
        producer = await _transaction(send)
        await producer.close()

    simulated(broker, scenario)
    assert not _commits(broker)
    assert broker.counts[api] > 1


@pytest.mark.parametrize("transaction_version", [0, 2])
def test_a_transaction_is_not_committed_without_its_offsets(transaction_version: int) -> None:
    """A former defect: the producer committed the transaction without the offsets."""
    broker = ScriptedBroker(
        _leaves_out(ApiKey.TXN_OFFSET_COMMIT), transaction_version=transaction_version
    )

    async def send_offsets(producer: Producer) -> None:
        with pytest.raises(AbortableError) as caught:
            await producer.send_offsets_to_transaction(
                {PLACE: OffsetAndMetadata(1)}, ConsumerGroupMetadata("g")
            )
        assert "t-0" in str(caught.value)
        with pytest.raises(AbortableError):
            await producer.commit_transaction()

    async def scenario() -> None:
        await (await _transaction(send_offsets)).close()

    simulated(broker, scenario)
    assert not _commits(broker)


def _commits(broker: ScriptedBroker) -> list[bool]:
    return [
        request.committed
        for _, api, request in broker.requests
        if api is ApiKey.END_TXN and request.committed
    ]


def test_a_commit_whose_response_lacks_the_new_epoch_is_never_aborted() -> None:
    broker = ScriptedBroker(_leaves_out(ApiKey.END_TXN))

    async def commit(producer: Producer) -> None:
        await producer.send(TOPIC, b"v")
        with pytest.raises(CommitOutcomeUnknown):
            await producer.commit_transaction()
        with pytest.raises(CommitOutcomeUnknown):
            await producer.commit_transaction()

    async def scenario() -> None:
        await (await _transaction(commit)).close()

    simulated(broker, scenario)
    ends = [request.committed for _, api, request in broker.requests if api is ApiKey.END_TXN]
    assert len(ends) > 2
    assert all(ends)


def test_a_response_without_a_producer_id_does_not_initialize() -> None:
    broker = ScriptedBroker(_leaves_out(ApiKey.INIT_PRODUCER_ID))

    async def scenario() -> None:
        producer = Producer(SERVER, transactional_id="x", max_block_ms=1_500, **QUICK)
        await producer.start()
        with pytest.raises(RetriableError, match="producer id"):
            await producer.init_transactions()
        await producer.close()

    simulated(broker, scenario)


def test_a_response_without_the_coordinator_does_not_mean_broker_0() -> None:
    broker = ScriptedBroker(_leaves_out(ApiKey.FIND_COORDINATOR))

    async def scenario() -> None:
        producer = Producer(SERVER, transactional_id="x", max_block_ms=1_500, **QUICK)
        await producer.start()
        with pytest.raises(RetriableError, match="FIND_COORDINATOR lacks x"):
            await producer.init_transactions()
        await producer.close()

    simulated(broker, scenario)


# -- consumer


Call = Callable[[Consumer], Awaitable[object]]


@pytest.mark.parametrize(
    ("api", "call"),
    [
        (ApiKey.OFFSET_COMMIT, lambda consumer: consumer.commit({PLACE: 1})),
        (ApiKey.OFFSET_FETCH, lambda consumer: consumer.committed(PLACE)),
        (ApiKey.LIST_OFFSETS, lambda consumer: consumer.end_offsets([PLACE])),
        (ApiKey.LIST_OFFSETS, lambda consumer: consumer.beginning_offsets([PLACE])),
        (ApiKey.LIST_OFFSETS, lambda consumer: consumer.offsets_for_times({PLACE: 5})),
        (ApiKey.FIND_COORDINATOR, lambda consumer: consumer.commit({PLACE: 1})),
    ],
)
def test_a_consumer_does_not_take_an_empty_response_for_success(api: ApiKey, call: Call) -> None:
    """A former defect: an empty response to OffsetCommit counted as a commit."""
    broker = ScriptedBroker(_leaves_out(api))

    async def scenario() -> None:
        consumer = Consumer(SERVER, group_id="g", default_api_timeout_ms=1_500, **QUICK)
        await consumer.start()
        await consumer.assign([PLACE])
        with pytest.raises(RetriableError, match=api.name):
            await call(consumer)
        await consumer.close()

    simulated(broker, scenario)
    assert 1 < broker.counts[api] < 100


def test_after_a_fetch_response_without_its_partitions_the_consumer_retries_with_a_pause() -> None:
    broker = ScriptedBroker(_leaves_out(ApiKey.FETCH))

    async def scenario() -> None:
        consumer = Consumer(SERVER, **QUICK)
        await consumer.start()
        await consumer.assign([PLACE])
        consumer.seek(PLACE, 0)
        assert await consumer.poll(2_000) == []
        await consumer.close()

    simulated(broker, scenario)
    assert 1 < broker.counts[ApiKey.FETCH] <= 2_000 / 50


# -- admin


TOPIC_CONFIG = ConfigResource(ResourceType.TOPIC, TOPIC)

ADMIN_CALLS: dict[ApiKey, Callable[[Admin], Awaitable[object]]] = {
    ApiKey.CREATE_TOPICS: lambda admin: admin.create_topics(["a"]),
    ApiKey.DELETE_TOPICS: lambda admin: admin.delete_topics(["a"]),
    ApiKey.CREATE_PARTITIONS: lambda admin: admin.create_partitions({"a": 2}),
    ApiKey.DELETE_RECORDS: lambda admin: admin.delete_records({PLACE: -1}),
    ApiKey.DESCRIBE_CONFIGS: lambda admin: admin.describe_configs([TOPIC_CONFIG]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda admin: admin.alter_configs(
        {TOPIC_CONFIG: [AlterConfigOp("retention.ms", "1")]}
    ),
    ApiKey.DESCRIBE_GROUPS: lambda admin: admin.describe_groups(["g"]),
    ApiKey.DELETE_GROUPS: lambda admin: admin.delete_groups(["g"]),
    ApiKey.OFFSET_FETCH: lambda admin: admin.list_group_offsets("g", [PLACE]),
    ApiKey.OFFSET_COMMIT: lambda admin: admin.alter_group_offsets(
        "g", {PLACE: OffsetAndMetadata(1)}
    ),
    ApiKey.OFFSET_DELETE: lambda admin: admin.delete_group_offsets("g", [PLACE]),
    ApiKey.DESCRIBE_PRODUCERS: lambda admin: admin.describe_producers([PLACE]),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda admin: admin.describe_transactions(["x"]),
    ApiKey.WRITE_TXN_MARKERS: lambda admin: admin.abort_transaction(
        AbortTransactionSpec(PLACE, 1, 0)
    ),
    ApiKey.INIT_PRODUCER_ID: lambda admin: admin.fence_producers(["x"]),
    ApiKey.LIST_OFFSETS: lambda admin: admin.list_offsets({PLACE: "latest"}),
}


@pytest.mark.parametrize("api", ADMIN_CALLS, ids=lambda api: api.name)
def test_no_admin_call_takes_an_empty_response_for_success(api: ApiKey) -> None:
    broker = ScriptedBroker(_leaves_out(api))

    async def scenario() -> None:
        admin = Admin(SERVER, default_api_timeout_ms=1_500, **QUICK)
        await admin.start()
        with pytest.raises(RetriableError, match=api.name):
            await ADMIN_CALLS[api](admin)
        await admin.close()

    simulated(broker, scenario)
    assert broker.counts[api] > 1


def test_a_description_of_a_topic_missing_from_the_metadata_fails() -> None:
    broker = ScriptedBroker()

    def script(api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.METADATA:
            return None
        response = broker.respond(api, 12, request)
        response.topics = []
        return response

    broker.script = script

    async def scenario() -> None:
        admin = Admin(SERVER, default_api_timeout_ms=1_500, **QUICK)
        await admin.start()
        with pytest.raises(RetriableError, match="METADATA lacks t"):
            await admin.describe_topics([TOPIC])
        await admin.close()

    simulated(broker, scenario)


def test_a_topic_that_is_requested_by_its_id_is_found_by_its_id() -> None:
    m = messages(ApiKey.METADATA)
    first, second = b"1" * 16, b"2" * 16
    rows = [m.MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in (first, second)]
    request = m.MetadataRequest(topics=rows)
    response = m.MetadataResponse(topics=[m.MetadataResponseTopic(name="t", topic_id=first)])
    missing = [uuid_to_string(second)]
    assert missing_rows(ApiKey.METADATA, request, response, 12) == missing


def test_each_missing_row_among_several_rows_is_found() -> None:
    m = messages(ApiKey.OFFSET_COMMIT)
    rows = [m.OffsetCommitRequestPartition(partition_index=index) for index in range(3)]
    request = m.OffsetCommitRequest(
        topics=[m.OffsetCommitRequestTopic(name=name, partitions=rows) for name in "ab"]
    )
    answered = [
        m.OffsetCommitResponseTopic(
            name="a",
            partitions=[m.OffsetCommitResponsePartition(partition_index=i) for i in (2, 0)],
        ),
        m.OffsetCommitResponseTopic(
            name="b",
            partitions=[m.OffsetCommitResponsePartition(partition_index=i) for i in (0, 1, 2, 3)],
        ),
    ]
    response = m.OffsetCommitResponse(topics=answered)
    assert missing_rows(ApiKey.OFFSET_COMMIT, request, response, 9) == ["a-1"]


def test_a_partition_missing_from_the_metadata_does_not_get_the_next_partitions_leader() -> None:
    """A former defect: the client took the second row, of partition 2, for partition 1."""
    m = messages(ApiKey.METADATA)
    rows = [m.MetadataResponsePartition(partition_index=index, leader_id=index) for index in (0, 2)]
    response = m.MetadataResponse(topics=[m.MetadataResponseTopic(name="t", partitions=rows)])
    metadata = Metadata().merged(response, whole=False)
    assert metadata.leader(TopicPartition("t", 1)) is None
    assert not metadata.topics["t"].usable
    assert metadata.topics["t"].error == ErrorCode.LEADER_NOT_AVAILABLE
