"""Compaction of transactions removes aborted records. A marker stays as long as its transaction has
records, and producers keep their sequences and epochs (KIP-98, KIP-534; L11)."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.log.errors import AppendError
from oncelog_server.storage.files import StorageError
from tests.server.log.cleaner.compacting import COMPACTED, Compacting, read_committed
from tests.server.log.driver import DIRECTORY, NOW_MS, producers_of
from tests.server.storage.memory_files import NO_SPACE

RETENTION_MS = COMPACTED.delete_retention_ms


def transaction(
    driver: Compacting, producer: int, sequence: int, *keys: str, committed: bool = True
) -> None:
    driver.put(
        *((key, f"{sequence}") for key in keys), producer_id=producer, sequence=sequence, epoch=0,
        transactional=True, timestamp=driver.now_ms,
    )  # fmt: skip
    driver.mark(producer, committed=committed)


def overwrite(driver: Compacting, *keys: str) -> None:
    """Write newer records of these keys to a new segment, then run a pass."""
    driver.roll()
    for key in keys:
        driver.put((key, "newer"), timestamp=driver.now_ms)
    driver.roll()
    driver.compact()


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_l11_a_marker_stays_for_delete_retention_after_its_data_is_removed(
    committed: bool,
) -> None:
    driver = Compacting()
    transaction(driver, 7, 0, "a", "b", committed=committed)
    driver.log.producers.clear()  # as if the producers had expired
    overwrite(driver, "a")
    if committed:
        assert (1, "b", "0") in driver.contents()
        assert driver.markers() == [2], "the marker commits the record of b"
        overwrite(driver, "b")
    assert not [row for row in driver.contents() if row[0] < 2]
    assert driver.markers() == [2], "the pass that drops the last record keeps the marker"
    header = next(header for header, _ in driver.batches() if header.is_control)
    assert header.delete_horizon_ms is None
    overwrite(driver, "c")
    header = next(header for header, _ in driver.batches() if header.is_control)
    assert header.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert header.max_timestamp == NOW_MS
    driver.now_ms += RETENTION_MS - 1
    overwrite(driver, "c")
    assert driver.markers() == [2]
    driver.now_ms += 1
    overwrite(driver, "c")
    assert driver.markers() == []


def test_l11_a_pass_removes_aborted_records_and_a_later_pass_their_txnindex_rows() -> None:
    driver = Compacting()
    transaction(driver, 7, 0, "a", committed=False)
    transaction(driver, 8, 0, "a")
    transaction(driver, 7, 1, "a", committed=False)
    driver.roll()
    assert len(driver.log.aborted_transactions(0, 9)) == 2
    driver.compact()
    assert driver.contents() == [(2, "a", "0")]
    assert read_committed(driver) == {"a": "0"}
    # The pass after the removal of a transaction's last batch removes its row of the txnindex. The
    # first transaction of producer 7 has no batch now, the second has an empty batch.
    assert len(driver.log.aborted_transactions(0, 9)) == 2
    overwrite(driver, "b")
    assert [row.first_offset for row in driver.log.aborted_transactions(0, 9)] == [4]
    assert len(driver.files.nodes[f"{DIRECTORY}/{0:020}.txnindex"].data) == 34
    driver.kill()
    assert [row.first_offset for row in driver.log.aborted_transactions(0, 9)] == [4]


def test_l11_an_open_transaction_and_all_records_after_it_stay_unchanged() -> None:
    driver = Compacting()
    driver.put(("a", "1"))
    driver.roll()
    driver.put(("a", "2"), producer_id=7, sequence=0, epoch=0, transactional=True)
    driver.roll()
    for value in "345":
        driver.put(("a", value))
    driver.roll()
    done = driver.compact()
    assert done is not None
    assert done.end_offset == 1
    assert len(driver.contents()) == 5
    driver.mark(7)
    driver.roll()
    driver.compact()
    assert driver.contents() == [(4, "a", "5")]
    assert driver.markers() == [5]


def test_l11_an_aborted_record_does_not_supersede_a_committed_one() -> None:
    driver = Compacting()
    driver.put(("a", "1"))
    transaction(driver, 7, 0, "a", committed=False)
    driver.roll()
    driver.compact()
    assert driver.contents() == [(0, "a", "1")]


def test_l11_the_marker_of_a_transaction_decides_its_records_in_earlier_segments() -> None:
    """The pass cleans the first records of a transaction before it reads the marker. Records
    without a transaction are between the first records and the marker."""
    driver = Compacting()
    for committed, producer in ((False, 7), (True, 8)):
        for sequence in range(3):
            driver.put(
                (f"k{producer}{sequence}", "v"), producer_id=producer, sequence=sequence, epoch=0,
                transactional=True,
            )  # fmt: skip
            driver.put(("x", "v" * 300))
            driver.roll()
        driver.mark(producer, committed=committed)
    driver.roll()
    driver.compact()
    keys = [key for _, key, _ in driver.contents()]
    assert keys == ["k80", "k81", "k82", "x"]
    overwrite(driver, "k80", "k81", "k82", "x")
    assert sorted(read_committed(driver)) == ["k80", "k81", "k82", "x"]


def test_l11_a_duplicate_is_known_after_compaction_and_a_restart_without_snapshots() -> None:
    driver = Compacting()
    for sequence in (0, 2):
        driver.put(("a", "1"), ("b", "1"), producer_id=7, sequence=sequence, epoch=3)
    overwrite(driver, "a", "b")
    assert [key for _, key, _ in driver.contents()] == ["a", "b"]
    header = driver.batches()[0][0]
    assert (header.base_offset, header.last_offset, header.records_count) == (2, 3, 0)
    assert (header.base_sequence, header.last_sequence) == (2, 3)
    for path in [path for path in driver.files.nodes if path.endswith(".snapshot")]:
        del driver.files.nodes[path]
    driver.log.recovery_point = 0
    driver.kill()
    again = driver.put(("a", "1"), ("b", "1"), producer_id=7, sequence=2, epoch=3)
    assert again.duplicate
    assert again.base_offset == 2
    with pytest.raises(AppendError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        driver.put(("a", "1"), producer_id=7, sequence=5, epoch=3)
    assert not driver.put(("a", "1"), producer_id=7, sequence=4, epoch=3).duplicate
    overwrite(driver, "a", "b")
    assert [h.base_offset for h, _ in driver.batches() if h.producer_id == 7] == [6], (
        "one empty batch keeps the producer's state"
    )


def test_l11_the_epoch_of_a_producer_with_only_markers_survives_compaction() -> None:
    driver = Compacting()
    driver.put(("a", "1"), producer_id=7, sequence=0, epoch=0, transactional=True)
    driver.mark(7, epoch=1, version=2)
    for _ in range(3):
        driver.now_ms += RETENTION_MS
        overwrite(driver, "a")
    for path in [path for path in driver.files.nodes if path.endswith(".snapshot")]:
        del driver.files.nodes[path]
    driver.log.recovery_point = 0
    driver.kill()
    assert producers_of(driver.log.producers)[7] == (1, 0, -1, -1, -1)
    with pytest.raises(AppendError) as refused:
        driver.put(("a", "1"), producer_id=7, sequence=1, epoch=0)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_l11_an_old_snapshot_reopens_no_transaction_whose_marker_was_removed() -> None:
    """A killed broker recovers from an older recovery point. In the snapshot of that point the
    transaction is open. Without its marker in the log the transaction would stay open forever."""
    driver = Compacting()
    driver.configure(segment_bytes=200)  # too small for a merge of segments
    driver.put(("a", "1"), producer_id=7, sequence=0, epoch=0, transactional=True)
    driver.put(("filler", "x" * 100))
    driver.roll()
    point = driver.log.segments.active.base_offset
    driver.mark(7)
    driver.put(("a", "2"), producer_id=7, sequence=1, epoch=0)
    driver.put(("other", "y" * 100))
    for _ in range(3):
        overwrite(driver, "z")
        driver.now_ms += RETENTION_MS
    assert driver.markers() == []
    assert point in [segment.base_offset for segment in driver.log.segments]
    driver.log.recovery_point = point
    driver.kill()
    assert driver.log.first_unstable_offset(1 << 40) is None
    assert producers_of(driver.log.producers)[7][4] == -1


def test_l11_a_marker_stays_while_the_disk_keeps_a_snapshot_from_before_it() -> None:
    driver = Compacting()
    driver.configure(segment_bytes=200)  # too small for a merge of segments
    driver.put(("a", "1"), producer_id=7, sequence=0, epoch=0, transactional=True)
    driver.put(("filler", "x" * 100))
    driver.roll()
    point = driver.log.segments.active.base_offset
    driver.mark(7)
    driver.put(("a", "2"), producer_id=7, sequence=1, epoch=0)
    driver.put(("other", "y" * 100))
    rename = driver.files.rename

    def full(source: str, target: str) -> None:
        if source.endswith(".snapshot"):
            raise StorageError("rename", source, NO_SPACE)
        rename(source, target)

    driver.files.rename = full  # type: ignore[method-assign]  # a fault
    refused = 0
    for _ in range(3):
        try:
            overwrite(driver, "z")
        except StorageError:
            refused += 1
            driver.replacement.abandon()
        driver.now_ms += RETENTION_MS
    assert refused > 0
    assert driver.markers() != []
    driver.log.recovery_point = point
    driver.kill()
    assert driver.log.first_unstable_offset(1 << 40) is None
    for _ in range(3):
        overwrite(driver, "z")
        driver.now_ms += RETENTION_MS
    assert driver.markers() == []
