"""A broker's transactions in memory: the transaction coordinator, the group coordinator, and real
partitions on a disk in memory. The transaction coordinator writes markers to local partitions.
Time and the disk advance on demand.

`crash` starts another process on the same disk. Tests read the results from the logs alone, with
code that is independent of the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar, overload

from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.deferred import Deferred
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.coordinator import GroupCoordinator
from oncelog_server.group.moment import Caller
from oncelog_server.log.config import COMPACT, LogConfig
from oncelog_server.log.log import PartitionLog
from oncelog_server.partition.group_flush import GroupFlush
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.producing.produce import ACKS_ALL, PartitionAppend, Produce
from oncelog_server.storage.layout import partition_directory
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.commands.end_txn import EndTxn
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.marker_delivery import LocalMarkers, MarkerSender
from oncelog_server.transaction.results import TransactionResult
from tests.server.log.driver import Oracle
from tests.server.manual_timers import ManualTimers
from tests.server.producing.appends import append_of
from tests.server.storage.memory_files import MemoryFiles
from tests.server.transaction.log_reading import committed_values, oracle_of_partition, read_values

T = TypeVar("T")

WALL_MS = 1_700_000_000_000
MANY = 1 << 30
TXN_LOG = TopicPartition(TRANSACTION_STATE, 0)
OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
DATA = (A0, A1, B0)
# The cleanup policy of the internal topics.
COMPACTED = frozenset({COMPACT})
GROUP = "g"
# No Produce of these tests times out.
PRODUCE_TIMEOUT_MS = 10**9


@overload
def value_of(response: Deferred[T]) -> T: ...


@overload
def value_of(response: T | Deferred[T]) -> T: ...


def value_of(response: T | Deferred[T]) -> T:
    """Return the response. Fail if it has not come yet."""
    if isinstance(response, Deferred):
        assert response.done, "no response yet"
        return response.value
    return response


@dataclass
class Scene:
    """The partition leaders of the newest metadata image. By default all leaders are local."""

    local: MarkerSender
    remote: dict[TopicPartition, MarkerSender] = field(default_factory=dict)
    leaderless: set[TopicPartition] = field(default_factory=set)
    gone: set[TopicPartition] = field(default_factory=set)

    def marker_sender(self, partition: TopicPartition) -> MarkerSender | None:
        if partition in self.leaderless or partition in self.gone:
            return None
        return self.remote.get(partition, self.local)

    def leader(self, partition: TopicPartition) -> int | None:
        return None if partition in self.gone else -1 if partition in self.leaderless else 1

    def is_gone(self, partition: TopicPartition) -> bool:
        return partition in self.gone


class World:
    """One broker process in memory. The next process gets its `files`, its wall clock and unused
    producer ids."""

    def __init__(
        self,
        files: MemoryFiles | None = None,
        *,
        flush_on_ack: bool = False,
        now_ms: int = 1_000,
        wall_ms: int = WALL_MS,
        leader_epoch: int = 0,
        next_producer_id: int = 1_000,
        flush_messages: int = 2**63 - 1,
        leads: bool = True,
        shards: int = 1,
        timers: ManualTimers | None = None,
    ) -> None:
        self.shards = shards
        self.files = files or MemoryFiles()
        self.flush_on_ack = flush_on_ack
        self.started_ms, self.started_wall_ms = now_ms, wall_ms
        self.timers = timers or ManualTimers(now_ms)
        self.leader_epoch = leader_epoch
        self.next_producer_id = next_producer_id
        # The principals of producer ids. An id without a row belongs to every principal.
        self.owners: dict[int, str] = {}
        self.config = LogConfig(flush_messages=flush_messages)
        self.flush = GroupFlush(self.files)
        # Logs with data that becomes durable only when `hurry` is called.
        self.slow: set[TopicPartition] = set()
        self._unflushed: list[Partition] = []
        self.partitions: dict[TopicPartition, Partition] = {}
        # The transaction coordinator's reports of markers in its own log: (partition, number of
        # markers).
        self.stray_markers: list[tuple[int, int]] = []
        for name in self.opened:
            self.partitions[name] = self._open(name)
        self.groups = GroupCoordinator(
            partition_count=lambda: 1,
            config=GroupConfig(),
            new_member_id=lambda client_id: f"{client_id}-1",
            timers=self.timers,
            wall_ms=self.wall,
            monotonic_ms=self.now,
        )
        self.local = LocalMarkers(self.partitions.get, self.groups.offsets_marker, self.wall)
        self.scene = self.new_scene()
        self.transactions = TransactionCoordinator(
            partition_count=lambda: shards,
            leaders=self.scene,
            new_producer_id=self._new_producer_id,
            owner_of_id=lambda producer_id: self.owners.get(producer_id, ""),
            timers=self.timers,
            wall_ms=self.wall,
            monotonic_ms=self.now,
            max_timeout_ms=900_000,
            on_stray_markers=lambda index, count: self.stray_markers.append((index, count)),
        )
        if leads:
            self.lead()

    def new_scene(self) -> Scene:
        return Scene(self.local)

    @property
    def opened(self) -> Sequence[TopicPartition]:
        """Return the partitions that this broker opens at its start."""
        return (*DATA, OFFSETS, *self.transaction_logs)

    @property
    def transaction_logs(self) -> list[TopicPartition]:
        return [TopicPartition(TRANSACTION_STATE, number) for number in range(self.shards)]

    def now(self) -> int:
        return self.timers.now_ms

    def wall(self) -> int:
        return self.started_wall_ms + self.timers.now_ms - self.started_ms

    def _new_producer_id(self, principal: str) -> int:
        if principal:
            self.owners[self.next_producer_id] = principal
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def _open(self, name: TopicPartition) -> Partition:
        log = PartitionLog.open(
            self.files,
            partition_directory(*name),
            self.config if name in DATA else replace(self.config, cleanup_policy=COMPACTED),
            topic_id=bytes(16),
            now_ms=self.started_wall_ms,
            clean_shutdown=False,
            recovery_point=0,
            log_start_offset=0,
        )
        partition = Partition(
            name, bytes(16), log, self._request_flush, flush_on_ack=self.flush_on_ack
        )
        partition.become_leader(0, self.leader_epoch, (0,), (0,))
        return partition

    def _request_flush(self, partition: Partition) -> None:
        if partition.topic_partition in self.slow:
            self._unflushed.append(partition)
        else:
            self.flush.request(partition)

    def hurry(self) -> None:
        """Flush the slow logs, and let all later syncs end at once."""
        self.slow.clear()
        unflushed, self._unflushed = self._unflushed, []
        for partition in unflushed:
            self.flush.request(partition)

    def recreate(self, name: TopicPartition) -> None:
        """Delete a partition and create a new one of the same name."""
        old = self.partitions.pop(name)
        old.resign()
        deleted = f"{partition_directory(*name)}.0-delete"
        old._log.rename_directory(deleted)
        self.files.remove([deleted])
        self.partitions[name] = self._open(name)

    def lead(self) -> None:
        self.groups.lead(self.partitions[OFFSETS])
        for name in self.transaction_logs:
            self.transactions.lead(self.partitions[name])

    # --- processes

    def crash(self, *, power_loss: Random | None = None, down_ms: int = 0) -> World:
        """End the process, and start the next process on its disk. The next process has a new block
        of producer ids."""
        files = self.files.after_power_loss(power_loss) if power_loss else self.files.after_kill()
        return World(
            files,
            flush_on_ack=self.flush_on_ack,
            # The monotonic clock of the next process is unrelated, as on another machine.
            now_ms=7_000_000,
            wall_ms=self.wall() + down_ms,
            leader_epoch=self.leader_epoch + 1,
            next_producer_id=(self.next_producer_id // 1000 + 1) * 1000,
            shards=self.shards,
        )

    def settle(self, advance_ms: int = 0) -> None:
        """Complete all operations of the disk, timers that become due, and scheduled calls."""
        until = self.now() + advance_ms
        while True:
            self.files.settle()
            self.timers.run_soon()
            if self.files.pending:
                continue
            if not self.timers.run_next(until):
                break
        self.timers.now_ms = max(self.timers.now_ms, until)

    @property
    def is_quiet(self) -> bool:
        """Return True if no disk operation is pending, and the only timer is that of the expiry of
        offsets (every ten minutes)."""
        return not self.files.pending and len(self.timers.waiting) == 1

    # --- requests

    def init(
        self,
        transactional_id: str = "t",
        producer_id: int = -1,
        producer_epoch: int = -1,
        *,
        timeout_ms: int = 60_000,
        two_phase: bool = False,
        keep: bool = False,
        caller: Client | None = None,
    ) -> TransactionResult | Deferred[TransactionResult]:
        command = InitProducerId(
            transactional_id, timeout_ms, producer_id, producer_epoch, two_phase, keep, caller
        )
        return self.transactions.init_producer_id(command)

    def producer(self, transactional_id: str = "t", **settings: Any) -> tuple[int, int]:
        """Return an initialized producer: its id and epoch."""
        result = None
        while result is None or result.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            response = self.init(transactional_id, **settings)
            self.settle()
            result = value_of(response)
        assert result.code is ErrorCode.NONE
        return result.producer_id, result.producer_epoch

    def add(
        self, producer: tuple[int, int], *partitions: TopicPartition, transactional_id: str = "t",
        version: int = 2,
    ) -> TransactionResult | Deferred[TransactionResult]:  # fmt: skip
        return self.transactions.add_partitions(
            AddPartitions(transactional_id, *producer, frozenset(partitions), version)
        )

    def end(
        self, producer: tuple[int, int], committed: bool, *, transactional_id: str = "t",
        bumps_epoch: bool = True,
    ) -> TransactionResult | Deferred[TransactionResult]:  # fmt: skip
        return self.transactions.end_txn(
            EndTxn(transactional_id, *producer, committed, bumps_epoch)
        )

    def produce(
        self, producer: tuple[int, int], partition: TopicPartition, sequence: int,
        value: bytes = b"v", *, transactional_id: str | None = "t",
        adds_partitions: bool = True, acks: int = ACKS_ALL,
    ) -> tuple[PartitionAppend, Deferred[None] | None]:  # fmt: skip
        append = append_of(
            partition.partition,
            transactional_batch(producer, sequence, value, self.wall()),
            self.partitions[partition],
        )
        later = Produce(
            [append],
            [append],
            transactional_id,
            acks,
            adds_partitions,
            self.transactions.add_partitions,
            self.wall(),
            PRODUCE_TIMEOUT_MS,
            self.timers,
        ).run()
        return append, later

    def commit_offset(
        self, producer: tuple[int, int], offset: int, *, transactional_id: str = "t"
    ) -> Any:
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=GROUP,
            producer_id=producer[0],
            producer_epoch=producer[1],
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                TxnOffsetCommitRequestTopic(
                    "in", partitions=[TxnOffsetCommitRequestPartition(0, offset)]
                )
            ],
        )
        caller = Caller(now_ms=self.now(), wall_ms=self.wall(), api_version=5)
        return self.groups.run(GROUP, lambda shard: shard.txn_offset_commit(request, caller))

    def offset(self, *, require_stable: bool = False) -> tuple[ErrorCode, int]:
        """Return the error code and the offset of OffsetFetch for the input partition."""
        request = OffsetFetchRequestGroup(
            group_id=GROUP, topics=[OffsetFetchRequestTopics(name="in", partition_indexes=[0])]
        )
        ((_, shard),) = self.groups.runtime.shards()
        found: Any = shard.offset_fetch(request, require_stable=require_stable).response
        (partition,) = found.topics[0].partitions
        return ErrorCode(partition.error_code), partition.committed_offset

    # --- the records of readers, and the contents of the logs

    def read(
        self, partition: TopicPartition, isolation: Isolation = Isolation.READ_COMMITTED
    ) -> list[bytes]:
        """Return the values that a reader with this isolation level gets from the log start. The
        reader follows KIP-98: it gets a list of aborted transactions from the broker, and drops
        their batches."""
        return read_values(self.partitions[partition], isolation)

    def oracle(self, partition: TopicPartition) -> Oracle:
        return oracle_of_partition(self.files, partition)

    def committed(self, partition: TopicPartition) -> list[bytes]:
        """Return the committed values up to the first undecided record, from the log's bytes
        alone."""
        return committed_values(self.files, partition)

    def check(self) -> None:
        """Check the offsets of every partition (I2), and the records that a reader gets from every
        data partition (I1)."""
        for name, partition in self.partitions.items():
            log = partition._log
            assert (
                log.log_start_offset
                <= partition.last_stable_offset
                <= partition.high_watermark
                <= log.log_end_offset
            )
            unstable = self.oracle(name).first_unstable(partition.high_watermark)
            expected = partition.high_watermark if unstable is None else unstable
            assert partition.last_stable_offset == min(expected, partition.high_watermark)
        for name in DATA:
            seen = self.read(name)
            assert seen == self.committed(name)[: len(seen)]


def transactional_batch(
    producer: tuple[int, int], sequence: int, value: bytes, timestamp: int
) -> bytearray:
    return build_batch(
        [NewRecord(timestamp, None, value)],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
    )
