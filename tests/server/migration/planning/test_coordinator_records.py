"""The newest record of each key in a coordinator's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.control import EndTransactionMarker, build_marker_batch
from oncelog_protocol.records.record import NewRecord
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

    def _add(self, batch: bytearray) -> Log:
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


def test_damage_is_named(tmp_path: Path) -> None:
    log = Log().put(b"a", b"1").put(b"a", b"2")
    log.data = log.data[:-1]
    with pytest.raises(DamagedFolder, match="is damaged at byte 70"):
        read(tmp_path, log)
