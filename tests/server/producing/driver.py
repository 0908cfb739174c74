"""Partitions and a transaction coordinator, for tests of a single Produce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.partition.group_flush import GroupFlush
from oncelog_server.partition.partition import Partition
from oncelog_server.producing.adding_retry import NEVER, AddingRetry
from oncelog_server.producing.produce import (
    ACKS_ALL,
    PartitionAppend,
    Produce,
    transactional_of,
)
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.results import SUCCESS, TransactionResult
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import partition
from tests.server.producing.appends import append_of
from tests.server.storage.memory_files import MemoryFiles

NONE = ErrorCode.NONE
TIMEOUT_MS = 30_000


def transactional(producer_id: int = 7, epoch: int = 0, sequence: int = 0) -> bytearray:
    return batch(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
    )


@dataclass
class Broker:
    """Partitions and a transaction coordinator. `answer` is the coordinator's response. A test that
    needs a later response sets a Deferred."""

    flush_on_ack: bool = False
    isr: tuple[int, ...] = (0,)
    replicas: tuple[int, ...] = (0,)
    min_insync_replicas: int = 1
    answer: TransactionResult | Deferred[TransactionResult] | Refused = SUCCESS
    asked: list[AddPartitions] = field(default_factory=list)
    adding_retry: AddingRetry = NEVER

    def __post_init__(self) -> None:
        self.files = MemoryFiles()
        self.timers = ManualTimers()
        flush = GroupFlush(self.files)
        self.partitions = [
            partition(
                self.files,
                TopicPartition("topic", index),
                flush=flush,
                flush_on_ack=self.flush_on_ack,
                isr=self.isr,
                replicas=self.replicas,
                min_insync_replicas=self.min_insync_replicas,
            )
            for index in range(3)
        ]

    def add(self, command: AddPartitions) -> TransactionResult | Deferred[TransactionResult]:
        self.asked.append(command)
        if isinstance(self.answer, Refused):
            raise self.answer
        return self.answer

    def produce(
        self,
        *batches: bytearray | memoryview | None,
        transactional_id: str | None = "t",
        acks: int = ACKS_ALL,
        adds_partitions: bool = True,
        partitions: list[Partition | None] | None = None,
    ) -> tuple[list[PartitionAppend], Deferred[None] | None]:
        into: list[Any] = partitions if partitions is not None else self.partitions
        appends = [append_of(index, data, into[index]) for index, data in enumerate(batches)]
        for append in appends:
            if append.partition is None:
                append.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        request = self.part(
            appends, transactional_id=transactional_id, acks=acks, adds_partitions=adds_partitions
        )
        return appends, request.run()

    def part(
        self,
        appends: Sequence[PartitionAppend],
        *,
        transactional_id: str | None = "t",
        acks: int = ACKS_ALL,
        adds_partitions: bool = True,
    ) -> Produce:
        """Return a request of these appends, or a part of a large request."""
        return Produce(
            list(appends), transactional_of(appends), transactional_id, acks, adds_partitions,
            self.add, NOW_MS, TIMEOUT_MS, self.timers, adding_retry=self.adding_retry,
        )  # fmt: skip

    @property
    def ends(self) -> list[int]:
        return [partition.log_end_offset for partition in self.partitions]


def codes(appends: list[PartitionAppend]) -> list[ErrorCode]:
    return [append.code for append in appends]
