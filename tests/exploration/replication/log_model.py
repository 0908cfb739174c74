"""The log of a replica, without files: each batch is an epoch and a value.

The real log costs a hundred times as much, and most of its state (segments, indexes, producers)
cannot change what replication decides. The leader epochs are the real ones. `test_log_model.py`
compares this log with the real one.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, Final, NamedTuple

from oncelog_server.log.clean_part import CleanPart
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import UnexpectedBatch
from oncelog_server.log.leader_epochs import LeaderEpochs
from oncelog_server.log.refusals import Refusals
from oncelog_server.log.results import Appended, Flush
from oncelog_server.slices import Steps
from tests.server.storage.memory_files import MemoryFiles


class Batch(NamedTuple):
    """A batch of one record. No two appended batches have the same value."""

    epoch: int
    value: int


Batches = tuple[Batch, ...]


class Read(NamedTuple):
    """Batches of a log, as a Fetch response has them."""

    base_offset: int
    batches: Batches

    def __len__(self) -> int:
        return len(self.batches)

    def __bool__(self) -> bool:
        return bool(self.batches)


class LogRead(NamedTuple):
    records: Read


class _Producers:
    """The producer state of a log without producers."""

    decided: Final = ()

    def on_high_watermark(self, high_watermark: int) -> None:
        pass


_PRODUCERS: Final = _Producers()


class LogModel:
    """Has the attributes of PartitionLog that replication uses. The log begins at offset 0."""

    log_start_offset: Final = 0
    producers: Final = _PRODUCERS
    # No fsync of a model fails.
    refusals: Final = Refusals()
    # No pass of the log cleaner cleans a model.
    clean_part: Final = CleanPart(MemoryFiles(), "")

    def __init__(
        self, batches: Batches, recovery_point: int, config: LogConfig, epochs: LeaderEpochs
    ) -> None:
        self.batches = batches
        self.recovery_point = recovery_point
        self.config = config
        self.leader_epochs = epochs

    @classmethod
    def reopened(cls, batches: Batches, recovery_point: int, config: LogConfig) -> LogModel:
        """Return the log at the start of a process: the batches give the leader epochs."""
        epochs = LeaderEpochs()
        for offset, batch in enumerate(batches):
            if batch.epoch > epochs.latest_epoch:
                epochs.assign(batch.epoch, offset)
        return cls(batches, recovery_point, config, epochs)

    @property
    def log_end_offset(self) -> int:
        return len(self.batches)

    # The log stands for its only segment, too.
    @property
    def segments(self) -> LogModel:
        return self

    @property
    def active(self) -> LogModel:
        return self

    @property
    def end_offset(self) -> int:
        return len(self.batches)

    @property
    def appended_bytes(self) -> int:
        return len(self.batches)

    def first_unstable_offset(self, high_watermark: int) -> None:
        return None

    def assign_leader_epoch(self, epoch: int) -> None:
        self.leader_epochs.assign(epoch, len(self.batches))

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        return self.leader_epochs.end_offset_for(epoch, len(self.batches))

    def append(self, value: Any, leader_epoch: int, *_: object) -> Appended:
        offset = len(self.batches)
        self._write(Batch(leader_epoch, value))
        return Appended(offset, offset, -1, False, 0)

    def append_replicated(self, read: Read, *, leader_epoch: int, now_ms: int) -> int:
        offset = len(self.batches)
        self.leader_epochs.truncate_from_end(offset)
        latest = self.leader_epochs.latest_epoch
        if read.base_offset != offset:
            raise UnexpectedBatch(f"offset {read.base_offset} at the log end {offset}")
        batches = list(takewhile(lambda batch: batch.epoch <= leader_epoch, read.batches))
        for batch in batches:
            if batch.epoch < latest:
                raise UnexpectedBatch(f"epoch {batch.epoch} after epoch {latest}")
            latest = batch.epoch
        for batch in batches:
            self._write(batch)
        return len(self.batches)

    def _write(self, batch: Batch) -> None:
        if batch.epoch > self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(batch.epoch, len(self.batches))
        self.batches = (*self.batches, batch)

    def read(self, offset: int, max_bytes: int, *, limit: int, at_least_one: bool) -> LogRead:
        return LogRead(Read(offset, self.batches[offset:limit]))

    def begin_flush(self) -> Flush:
        raise NotImplementedError("Broker.flush has the steps of a flush")

    def synced(self) -> None:
        self.recovery_point = len(self.batches)

    def lower_recovery_point(self, offset: int, *, restarts: bool = False) -> None:
        self.recovery_point = min(self.recovery_point, 0 if restarts else offset)

    def find_cut(self, offset: int) -> None:
        """Find nothing, because a batch of the model has one record."""

    def producers_before(self, offset: int, now_ms: int) -> Steps[None]:
        """Return None, because the model has no producers."""
        yield from ()

    def truncate_to(self, offset: int, now_ms: int, before: None = None) -> None:
        if offset < len(self.batches):
            self.batches = self.batches[:offset]
            self.recovery_point = min(self.recovery_point, offset)
            self.leader_epochs.truncate_from_end(offset)

    def restart_at(self, offset: int, now_ms: int) -> None:
        if offset:
            raise NotImplementedError("the log of a model begins at offset 0")
        self.truncate_to(0, now_ms)
        self.leader_epochs.truncate_from_end(0)
