"""While the records of a Produce are read, the event loop serves other requests. The connection's
next request waits. The Produce is checked against the state after the reading."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.record import NewRecord
from oncelog_server.broker import Broker
from oncelog_server.clock import Clock
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.deferred import Deferred
from oncelog_server.handlers import end_txn
from oncelog_server.log.record_rules import STEP_RECORDS
from oncelog_server.log.validation import BatchRules, PreparedBatch
from oncelog_server.producing import preparation
from oncelog_server.quotas.entities import Quota, entity_of
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.slices import SMALL
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.results import TransactionResult
from tests.server.between_steps import Calls
from tests.server.handlers.nodes import DEADLINE_S, ask
from tests.server.handlers.test_large_produce import (
    ADDING,
    codes,
    framed,
    identity,
    response_of,
    serve,
)
from tests.server.hosting.test_replica_manager import life
from tests.server.log.driver import NOW_MS, batch

RECORDS = 30 * STEP_RECORDS
# The topic has enough partitions for a request that `LargeProduce` serves.
PARTITIONS = SMALL + 1
# About six calls for each record of a step. All records together have fifteen times as many.
MOST_CALLS = 12 * STEP_RECORDS


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with life(tmp_path) as running:
        compacted = {"cleanup.policy": "compact"}
        await running.metadata.create_topics([NewTopic("slow", PARTITIONS, settings=compacted)])
        yield running


def request(
    records: Callable[[], bytearray] = lambda: batch(RECORDS, size=1), *, acks: int = -1,
    transactional_id: str | None = None, partitions: int = 1,
) -> ProduceRequest:  # fmt: skip
    rows = [PartitionProduceData(0, memoryview(records()))]
    rows += [PartitionProduceData(number, memoryview(batch())) for number in range(1, partitions)]
    return ProduceRequest(transactional_id, acks, 1_000, [TopicProduceData("slow", b"", rows)])


def end(broker: Broker) -> int:
    return broker.partitions.require("slow", 0).log_end_offset


def keyless() -> bytearray:
    """Return a batch. Its last record has no key."""
    keys = [b"k"] * (RECORDS - 1) + [None]
    return build_batch([NewRecord(NOW_MS, key, b"v") for key in keys])


@pytest.mark.parametrize("acks", [-1, 0])
@pytest.mark.parametrize("partitions", [1, PARTITIONS])
async def test_no_step_of_a_slow_produce_is_long(
    broker: Broker, acks: int, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls()
    slices = broker.services.slices
    run, queue = slices.run, slices.queue
    monkeypatch.setattr(slices, "run", lambda steps: run(calls.counted(steps)))
    monkeypatch.setattr(slices, "queue", lambda steps: queue(calls.counted(steps)))
    asked = request(acks=acks, partitions=partitions)
    frame = framed(asked, 9)
    response = serve(broker, frame)
    assert isinstance(response, Deferred)
    assert not response.done
    assert end(broker) == 0, "nothing is appended before the last step"
    if acks:
        assert codes(await response_of(response)) == {0}
    else:
        async with asyncio.timeout(DEADLINE_S):
            while end(broker) == 0:  # noqa: ASYNC110 - waits for turns of the loop
                await asyncio.sleep(0)
    assert end(broker) == RECORDS
    assert calls.steps > RECORDS // STEP_RECORDS
    assert calls.most < MOST_CALLS


class Ticking:
    """A clock that advances by 1 ms with each reading of its nanoseconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now_ns = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def monotonic_ns(self) -> int:
        self._now_ns += 1_000_000
        return self._now_ns


@pytest.mark.parametrize("partitions", [1, PARTITIONS])
async def test_the_quota_of_time_counts_the_steps_of_a_slow_produce(
    broker: Broker, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted_ns: list[int] = []

    def after_request(gate: QuotaGate, user: str, client: str, used_ns: int, now_ms: int) -> int:
        counted_ns.append(used_ns)
        return 0

    monkeypatch.setattr(QuotaGate, "after_request", after_request)
    broker.services.quotas.follow({entity_of([("user", None)]): {Quota.REQUEST: 100.0}})
    broker.services.clock = Ticking(broker.services.clock)
    assert codes(await response_of(serve(broker, request(partitions=partitions)))) == {0}
    assert sum(counted_ns) > RECORDS // STEP_RECORDS * 1_000_000


async def test_a_refused_record_of_a_slow_produce_is_named(broker: Broker) -> None:
    found = await response_of(serve(broker, request(keyless)))
    (row,) = found.responses[0].partition_responses
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in row.record_errors] == [RECORDS - 1]
    assert end(broker) == 0


async def test_a_small_request_of_batches_that_become_large_takes_little_memory(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of the batches above the limit are read at the append."""
    large = len(batch(RECORDS, size=500))
    for number in range(4):
        partition = broker.partitions.require("slow", number)
        config = replace(partition.config, compression_type="uncompressed", max_message_bytes=large)
        partition.reconfigure(config)

    def compressed() -> memoryview:
        return memoryview(batch(RECORDS, size=500, compression=Compression.GZIP))

    monkeypatch.setattr(preparation, "MOST_BYTES", large + 1)
    waiting: list[int] = []
    take = BatchRules.take

    def counted(rules: BatchRules, ready: PreparedBatch, now_ms: int) -> tuple[Any, Any]:
        waiting.append(len(ready.records))
        return take(rules, ready, now_ms)

    monkeypatch.setattr(BatchRules, "take", counted)
    rows = [PartitionProduceData(number, compressed()) for number in range(4)]
    asked = ProduceRequest(None, -1, 1_000, [TopicProduceData("slow", b"", rows)])
    assert codes(await response_of(serve(broker, asked))) == {0}
    assert waiting == [large] * 2
    assert [broker.partitions.require("slow", n).log_end_offset for n in range(4)] == [RECORDS] * 4


async def test_a_slow_produce_is_appended_if_its_client_disconnects(broker: Broker) -> None:
    response = serve(broker, request(acks=0))
    assert isinstance(response, Deferred)
    response.cancel()
    async with asyncio.timeout(DEADLINE_S):
        while end(broker) == 0:  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0)
    assert end(broker) == RECORDS


async def test_a_partition_may_go_during_a_slow_produce(broker: Broker) -> None:
    response = serve(broker, request())
    topic = broker.metadata.image.topics["slow"]
    broker._replica_manager._remove(topic, TopicPartition("slow", 0))
    assert codes(await response_of(response)) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_the_settings_at_the_append_count(broker: Broker) -> None:
    """The topic is no longer compacted when the records without a key are appended."""
    partition = broker.partitions.require("slow", 0)
    response = serve(broker, request(keyless))
    partition.reconfigure(replace(partition.config, cleanup_policy=frozenset({"delete"})))
    assert codes(await response_of(response)) == {0}
    # No setting needs the records any more.
    assert isinstance(serve(broker, request(keyless)), list)
    assert end(broker) == 2 * RECORDS


@pytest.mark.parametrize(("version", "end_version"), [(9, 4), (ADDING, 5)])
async def test_a_transaction_that_ends_during_a_slow_produce_gets_no_record(
    broker: Broker, version: int, end_version: int
) -> None:
    """A batch after the marker would hold back readers forever (KIP-890). EndTxn v4 leaves the
    producer its epoch, so only the coordinator knows that the transaction has ended."""
    owner = await identity(broker, "t")
    # The partition is in the transaction already, and has no batch of it yet.
    slow = frozenset({TopicPartition("slow", 0)})
    added = broker.services.transactions.add_partitions(AddPartitions("t", *owner, slow))
    assert isinstance(added, TransactionResult)
    assert added.code is ErrorCode.NONE

    def transactional() -> bytearray:
        return batch(
            RECORDS, size=1, producer_id=owner[0], producer_epoch=owner[1], base_sequence=0,
            is_transactional=True,
        )  # fmt: skip

    response = serve(broker, request(transactional, transactional_id="t"), version)
    assert isinstance(response, Deferred)
    assert not response.done
    ended = await ask(end_txn, broker.services, EndTxnRequest("t", *owner, False), end_version)
    assert ended.error_code == 0
    assert codes(await response_of(response, version)) != {0}
    partition = broker.partitions.require("slow", 0)
    assert not partition.open_transactions()
    assert partition.last_stable_offset == partition.log_end_offset
    assert partition.log_end_offset <= 1, "only the marker"
