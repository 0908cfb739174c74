"""The model of a log does what the real log does: the same logs, leader epochs, ends of epochs and
recovery points after the same changes, also after a restart."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.records.batch import split_batches
from oncelog_server.log.config import LogConfig
from oncelog_server.log.errors import UnexpectedBatch
from oncelog_server.log.leader_epochs import LeaderEpochs
from oncelog_server.log.log import PartitionLog
from tests.exploration.replication.log_model import Batch, LogModel, Read
from tests.server.log.driver import NOW_MS, batch
from tests.server.storage.memory_files import MemoryFiles

CONFIG: Final = LogConfig()
OFFSETS: Final = st.integers(0, 6)
EPOCHS: Final = st.integers(1, 5)
CHANGES: Final = st.one_of(
    st.tuples(st.just("lead"), EPOCHS),
    st.tuples(st.just("append"), st.just(0)),
    st.tuples(st.just("replicate"), st.lists(EPOCHS, min_size=1, max_size=2)),
    st.tuples(st.just("truncate"), OFFSETS),
    st.tuples(st.just("restart at 0"), st.just(0)),
    st.tuples(st.just("sync"), st.just(0)),
    st.tuples(st.just("kill"), st.just(0)),
)


class Both:
    """A model and a real log with the same changes. A batch of the real log has one record."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.real = self.opened(clean=True)
        self.model = LogModel((), 0, CONFIG, LeaderEpochs())
        self.epoch = 0
        self.values = 0

    def opened(self, *, clean: bool) -> PartitionLog:
        return PartitionLog.open(
            self.files,
            "a-0",
            CONFIG,
            topic_id=bytes(16),
            now_ms=NOW_MS,
            clean_shutdown=clean,
            recovery_point=0,
            log_start_offset=0,
        )

    def change(self, kind: str, about: Any) -> None:
        real, model = self.real, self.model
        if kind == "lead" and about > max(self.epoch, model.leader_epochs.latest_epoch):
            self.epoch = about
            real.assign_leader_epoch(about)
            model.assign_leader_epoch(about)
        elif kind == "append" and self.epoch and self.epoch >= model.leader_epochs.latest_epoch:
            real.append(batch(1), self.epoch, NOW_MS)
            model.append(self.new_value(), self.epoch)
        elif kind == "replicate":
            self.replicate(about)
        elif kind == "truncate":
            self.epoch = 0
            for log in (real, model):
                log.lower_recovery_point(about)
                log.truncate_to(about, NOW_MS)
        elif kind == "restart at 0":
            self.epoch = 0
            for log in (real, model):
                log.lower_recovery_point(0, restarts=True)
                log.restart_at(0, NOW_MS)
        elif kind == "sync":
            real.synced()
            model.synced()
        elif kind == "kill":
            self.epoch = 0
            self.files = self.files.after_kill()
            self.real = self.opened(clean=False)
            self.model = LogModel.reopened(model.batches, self.real.recovery_point, CONFIG)

    def new_value(self) -> int:
        self.values += 1
        return self.values

    def replicate(self, epochs: list[int]) -> None:
        self.epoch = 0
        offset, records = self.model.log_end_offset, bytearray()
        for place, epoch in enumerate(epochs):
            records += batch(1, base_offset=offset + place, leader_epoch=epoch)
        read = Read(offset, tuple(Batch(epoch, self.new_value()) for epoch in epochs))
        followed = max(self.model.leader_epochs.latest_epoch, min(epochs, default=0)) + 1
        assert _raises(
            lambda: self.real.append_replicated(records, now_ms=NOW_MS, leader_epoch=followed)
        ) == _raises(
            lambda: self.model.append_replicated(read, now_ms=NOW_MS, leader_epoch=followed)
        )

    def check(self) -> None:
        real, model = self.real, self.model
        end_offset = real.log_end_offset
        assert end_offset == model.log_end_offset
        assert [*real.leader_epochs] == [*model.leader_epochs]
        assert real.recovery_point == model.recovery_point
        for epoch in range(7):
            assert real.end_offset_for_epoch(epoch) == model.end_offset_for_epoch(epoch)
        for offset in range(end_offset):
            found = real.read(offset, 1 << 20, limit=end_offset, at_least_one=True).records
            assert found is not None
            batches = split_batches(memoryview(found.read()))
            records = model.read(offset, 1, limit=end_offset, at_least_one=True).records.batches
            assert [header.partition_leader_epoch for _, header in batches] == [
                read.epoch for read in records
            ]


def _raises(append: Any) -> bool:
    try:
        append()
    except UnexpectedBatch:
        return True
    return False


@settings(deadline=None)
@given(st.lists(CHANGES, max_size=12))
def test_a_model_and_a_real_log_agree(changes: list[tuple[str, Any]]) -> None:
    both = Both()
    for kind, about in changes:
        both.change(kind, about)
        both.check()
