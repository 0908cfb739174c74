"""The newest record of each key in a coordinator's folder."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.records.batch import build_batch, read_header
from oncelog_protocol.records.control import EndTransactionMarker, build_marker_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_protocol.records.retained import build_empty_batch
from oncelog_server.group.offsets import CommittedOffset, Offsets
from oncelog_server.migration.planning.coordinator_records import (
    CoordinatorRecords,
    DamagedFolder,
    read_coordinator_records,
)
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from tests.server.migration.kafka_folder import write_partition

FOLDER = "__consumer_offsets-0"


class Log:
    """Builds the bytes of a segment."""

    def __init__(self) -> None:
        self.data = b""
        self._offset = 0
        self._last = bytearray()

    def put(self, key: bytes, value: bytes | None, producer_id: int = -1) -> Log:
        is_transactional = producer_id >= 0
        batch = build_batch(
            [NewRecord(1, key, value)],
            base_offset=self._offset,
            producer_id=producer_id,
            producer_epoch=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
        return self._add(batch)

    def end(self, producer_id: int, *, committed: bool) -> Log:
        marker = EndTransactionMarker(committed, 0)
        batch = build_marker_batch(
            marker,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=1,
            base_offset=self._offset,
        )
        return self._add(batch)

    def removed_end(self, producer_id: int) -> Log:
        """Add the empty batch that compaction keeps of a marker."""
        self.end(producer_id, committed=True)
        header = read_header(self._last)
        self.data = self.data[: -len(self._last)] + build_empty_batch(header)
        return self

    def _add(self, batch: bytearray) -> Log:
        self._last = batch
        self.data += batch
        self._offset += 1
        return self


def read(path: Path, log: Log) -> CoordinatorRecords:
    write_partition(path, FOLDER, log.data)
    return read_coordinator_records(ReadOnlyFiles(), str(path / FOLDER))


def test_the_last_value_of_a_key_counts(tmp_path: Path) -> None:
    log = Log().put(b"a", b"1").put(b"a", b"2").put(b"b", b"3").put(b"b", None)
    assert read(tmp_path, log) == CoordinatorRecords({b"a": b"2"})


@pytest.mark.parametrize(("committed", "value"), [(True, b"2"), (False, b"1")])
def test_a_transaction_counts_from_its_marker_on(
    tmp_path: Path, committed: bool, value: bytes
) -> None:
    log = Log().put(b"a", b"1").put(b"a", b"2", producer_id=7).end(7, committed=committed)
    assert read(tmp_path, log) == CoordinatorRecords({b"a": value})


def test_an_open_transaction_is_pending(tmp_path: Path) -> None:
    log = Log().put(b"a", b"1").put(b"a", b"2", producer_id=7).put(b"b", None, producer_id=8)
    assert read(tmp_path, log) == CoordinatorRecords(
        {b"a": b"1"}, {7: {b"a": b"2"}, 8: {b"b": None}}
    )


def test_the_later_record_counts_if_a_marker_follows_it(tmp_path: Path) -> None:
    """KAFKA-5247: a plain commit may come between a transactional commit and its marker."""
    log = Log().put(b"a", b"50", producer_id=7).put(b"a", b"100").end(7, committed=True)
    assert read(tmp_path, log) == CoordinatorRecords({b"a": b"100"})


def test_a_tombstone_also_removes_what_is_pending(tmp_path: Path) -> None:
    log = Log().put(b"a", b"50", producer_id=7).put(b"a", None).end(7, committed=True)
    assert read(tmp_path, log) == CoordinatorRecords()


def test_a_marker_that_compaction_has_removed_changes_nothing(tmp_path: Path) -> None:
    log = Log().put(b"a", b"1", producer_id=7).end(7, committed=True).removed_end(8)
    log.put(b"b", b"2", producer_id=9).removed_end(9)
    assert read(tmp_path, log) == CoordinatorRecords({b"a": b"1"}, {9: {b"b": b"2"}})


KEYS = st.sampled_from(["a", "b"])
PRODUCERS = st.integers(0, 1)
STEPS = st.one_of(
    st.tuples(st.just("commit"), KEYS),
    st.tuples(st.just("stage"), KEYS, PRODUCERS),
    st.tuples(st.just("remove"), KEYS),
    st.tuples(st.just("end"), PRODUCERS, st.booleans()),
)


@given(st.lists(STEPS, max_size=20))
def test_the_coordinator_and_the_export_agree(steps: list[tuple[Any, ...]]) -> None:
    log, offsets = Log(), Offsets()
    for number, step in enumerate(steps):
        value = CommittedOffset(number, -1, "", 0, None, number)
        match step:
            case ("commit", key):
                log.put(key.encode(), b"%d" % number)
                offsets.commit("g", key, 0, value)
            case ("stage", key, producer_id):
                log.put(key.encode(), b"%d" % number, producer_id)
                offsets.stage(producer_id, "g", key, 0, value)
            case ("remove", key):
                log.put(key.encode(), None)
                offsets.remove("g", key, 0)
            case ("end", producer_id, committed):
                log.end(producer_id, committed=committed)
                offsets.end_transaction(producer_id, committed=committed)
    with TemporaryDirectory() as folder:
        found = read(Path(folder), log)
    committed, pending = offsets.snapshot()
    assert found.newest == {
        topic.encode(): b"%d" % value.offset for (_, topic, _), value in committed.items()
    }
    assert {
        (producer_id, key): value
        for producer_id, records in found.pending.items()
        for key, value in records.items()
    } == {
        (producer_id, topic.encode()): b"%d" % value.offset
        for (producer_id, _, topic, _), value in pending.items()
    }


def test_damage_is_named(tmp_path: Path) -> None:
    log = Log().put(b"a", b"1").put(b"a", b"2")
    log.data = log.data[:-1]
    with pytest.raises(DamagedFolder, match="is damaged at byte 70"):
        read(tmp_path, log)
