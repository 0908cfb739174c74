"""Replay accepts the records that a log may have. Any other record makes the load fail, so that the
shard is never served in part (S14, S15)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.transaction.effects import Pending
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.metadata import (
    LAST_PRODUCER_EPOCH,
    TransactionMetadata,
    to_record,
)
from oncelog_server.transaction.shard import TransactionShard, decided
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import ID, P0, P1, Driver


def replay(shard: TransactionShard, record: CoordinatorRecord) -> None:
    shard.replay(record, offset=0, transaction=None)


def test_S15_a_record_of_an_unknown_type_is_skipped() -> None:
    shard = TransactionShard(0, max_timeout_ms=1)
    replay(shard, CoordinatorRecord(b"\x00\x09later", b"whatever"))
    assert not shard.transactions


@pytest.mark.parametrize("cut", [0, 1, 5, 20])
def test_S14_a_value_that_cannot_be_read_is_an_error(cut: int) -> None:
    record = to_record(TransactionMetadata("t", 1, 0, 1_000))
    assert record.value is not None
    with pytest.raises(ValueError):  # noqa: PT011  # each codec has its own message
        replay(
            TransactionShard(0, max_timeout_ms=1),
            CoordinatorRecord(record.key, record.value[:cut]),
        )


def test_S14_a_number_that_is_no_state_is_an_error() -> None:
    metadata = TransactionMetadata("t", 1, 0, 1_000, 9)  # type: ignore[arg-type]  # no State
    record = to_record(metadata)
    with pytest.raises(ValueError, match="9"):
        replay(TransactionShard(0, max_timeout_ms=1), record)


@pytest.mark.parametrize("left", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
@pytest.mark.parametrize("last", State)
def test_the_last_record_decides_although_the_completion_before_it_is_compacted_away(
    left: State, last: State
) -> None:
    """A power failure may undo the compaction of one segment, and keep that of the next."""
    earlier = TransactionMetadata("t", 1, 0, 1_000, left, frozenset({P0, P1}), start_ms=1)
    newest = TransactionMetadata("t", 1, 1, 1_000, last, frozenset({P1}), start_ms=2)
    whole, rest = (TransactionShard(0, max_timeout_ms=1_000) for _ in range(2))
    for shard, records in ((whole, [newest]), (rest, [earlier, newest])):
        for metadata in records:
            replay(shard, to_record(metadata))
        shard.on_loaded(now_ms=0, wall_ms=2)
    assert rest.marker_works() == whole.marker_works()
    assert (rest.ongoing, rest.prepared) == (whole.ongoing, whole.prepared)
    assert rest.transactions == whole.transactions


def test_a_control_record_in_the_transaction_log_changes_nothing_and_is_counted() -> None:
    driver = Driver(finishes=False)
    driver.put(State.ONGOING)
    before = driver.metadata
    driver.shard.replay_marker(before.producer_id, before.producer_epoch, committed=True)
    assert driver.metadata == before
    assert driver.shard.stray_markers == 1


def test_a_failed_decision_removes_only_its_own_pending_state() -> None:
    driver = Driver(finishes=False)
    driver.put(State.ONGOING)
    earlier, later = (replace(driver.metadata, last_update_ms=number) for number in (1, 2))
    driver.shard.begin(Pending(later, to_record(later)))
    driver.shard.take_back(Pending(earlier, to_record(earlier)), ErrorCode.KAFKA_STORAGE_ERROR)
    assert driver.live.pending is later
    unknown = replace(earlier, transactional_id="unknown")
    driver.shard.take_back(Pending(unknown, to_record(unknown)), ErrorCode.KAFKA_STORAGE_ERROR)
    driver.shard.take_back(Pending(later, to_record(later)), ErrorCode.KAFKA_STORAGE_ERROR)
    assert driver.live.pending is None


@pytest.mark.parametrize(("written", "epoch"), [(-1, 0), (0, 0), (3, 3)])
def test_the_next_producer_id_begins_with_epoch_0_if_the_record_has_none(
    written: int, epoch: int
) -> None:
    """Apache Kafka's records have a next producer id without its epoch."""
    metadata = TransactionMetadata(
        "t", 77, LAST_PRODUCER_EPOCH, 1_000, next_producer_id=78, next_producer_epoch=written
    )
    result = decided(metadata)
    assert (result.code, result.producer_id, result.producer_epoch) == (ErrorCode.NONE, 78, epoch)


def test_a_late_marker_response_does_not_count_for_the_next_transaction_of_the_epoch() -> None:
    driver = Driver(finishes=False)
    producer = (lambda producer: (producer.producer_id, producer.producer_epoch))(
        driver.init().value
    )

    def decided() -> MarkerWork:
        driver.add(*producer, P0)
        driver.end(*producer, True, bumps_epoch=False)
        work = driver.shard.marker_work(ID)
        assert work is not None
        return work

    first = decided()
    driver.finish(ID)
    second = decided()
    assert (first.producer_epoch, first.partitions) == (second.producer_epoch, second.partitions)
    driver.shard.marker_written(first, P0)
    assert driver.live.markers_left == {P0}
    driver.shard.marker_written(second, P0)
    assert not driver.live.markers_left


@pytest.mark.parametrize("state", [State.ONGOING, State.PREPARE_ABORT, State.COMPLETE_COMMIT])
def test_a_tombstone_removes_the_transactional_id_in_any_state(state: State) -> None:
    driver = Driver(finishes=False)
    driver.put(state)
    replay(driver.shard, CoordinatorRecord(driver.log[0].key, None))
    assert driver.shard.get(ID) is None
    assert not driver.shard.ongoing
    assert not driver.shard.prepared
    assert driver.add(77, 5, P0).value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_C_markers_decided_before_a_crash_are_written_in_the_order_of_decisions() -> None:
    driver = Driver(finishes=False)
    for name in ("x", "y"):
        result = driver.init(transactional_id=name).value
        driver.add(result.producer_id, 0, P0, transactional_id=name)
    for name, producer_id in (("y", 1_001), ("x", 1_000)):
        driver.end(producer_id, 0, name == "x", transactional_id=name)
    driver.crash()
    assert list(driver.shard.prepared) == ["y", "x"]
    for name in ("x", "y"):
        work = driver.shard.marker_work(name)
        assert work is not None
        assert (work.committed, work.partitions, work.producer_epoch) == (name == "x", (P0,), 1)
        assert work.coordinator_epoch == 1
