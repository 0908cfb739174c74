"""A disk that is full for one kind of file. Acknowledged records stay, and a log event names the
reason of the refusals. Once the disk has space again, everything continues without a restart
(D1-D4, D6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from oncelog_protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.records.batch import build_batch
from tests.faults.full_disk import (
    FullFor,
    broker_with_full_disk,
    healed,
    offline_count,
    refused,
)
from tests.faults.test_disk_full import TRY_AGAIN, end
from tests.harness.broker import Oncelog
from tests.harness.driving import (
    QUICK,
    create,
    created,
    end_offset,
    events,
    fetch,
    last_stable_offset,
    merged,
    values,
)
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    new_identity,
    produce,
    records,
)

HEALED_S = 5.0
SEGMENT_BYTES = 4_000
# Patterns of the files for which the disk is full: files of partition `t-0`, files of the
# coordinator, or all files.
KINDS = {
    "log": r"^t-0/\d+\.log$",
    "next log": r"^t-0/(?!0{20})\d+\.log$",
    "index": r"^t-0/\d+\.index$",
    "timeindex": r"^t-0/\d+\.timeindex$",
    "txnindex": r"^t-0/\d+\.txnindex$",
    "txn-index-checkpoint": r"^t-0/txn-index-checkpoint",
    "snapshot": r"^t-0/\d+\.snapshot",
    "all of the partition": r"^t-0/",
    "all of the coordinator": r"^__transaction_state-",
    "everything": r".",
}
# Kinds with a clean stop of the broker in their test. In the tests of the other kinds the broker is
# killed.
STOPPED_CLEANLY = {"txnindex", "txn-index-checkpoint", "index", "everything"}


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[tuple[Oncelog, FullFor]]:
    once = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
    soon = {"log.flush.offset.checkpoint.interval.ms": "100"}
    broker, disk = broker_with_full_disk(tmp_path, merged(QUICK, once, soon))
    broker.start()
    yield broker, disk
    broker.kill()


@pytest.fixture
def broker(faulty: tuple[Oncelog, FullFor]) -> Oncelog:
    return faulty[0]


@pytest.fixture
def disk(faulty: tuple[Oncelog, FullFor]) -> FullFor:
    return faulty[1]


def send(wire: Wire, producer: Identity, sequence: int, value: bytes) -> None:
    response = produce(wire, "t", batch(producer, sequence, value=value), producer=producer)
    assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)


def write_until_rolled(wire: Wire, acknowledged: list[bytes], bytes_each: int = 500) -> bool:
    """Write more than a segment holds, with two attempts for each record. Return True if the broker
    refused a record."""
    was_refused = False
    for number in range(2 * SEGMENT_BYTES // bytes_each):
        value = b"%d-%d" % (len(acknowledged), number) + bytes(bytes_each)
        for _ in range(2):
            code = produce(wire, "t", build_batch(records(1, value))).error_code
            assert code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode(code)
            if code == ErrorCode.NONE:
                acknowledged.append(value)
                break
            was_refused = True
    return was_refused


@pytest.mark.parametrize("kind", KINDS)
def test_with_space_again_everything_continues_without_a_restart(
    broker: Oncelog, disk: FullFor, kind: str
) -> None:
    """A producer's abort on the full disk must not delay another producer's commit forever."""
    with Wire(broker.address) as wire:
        create(wire, "t", internal_segment_bytes=SEGMENT_BYTES)
        aborting, committing, hanging = (new_identity(wire, name) for name in "ach")
        send(wire, aborting, 0, b"aborted")
        send(wire, committing, 0, b"committed")
        acknowledged = [b"committed"]
        assert end_transaction(wire, committing, commit=True).error_code == ErrorCode.NONE
        send(wire, hanging, 0, b"hanging")
        assert offline_count(broker) == 0

        disk.fill(KINDS[kind])
        code = end(wire, aborting, commit=False)[0]
        assert code in TRY_AGAIN | {ErrorCode.NONE}, code
        was_refused = write_until_rolled(wire, acknowledged)
        where = "__transaction_state-0" if kind == "all of the coordinator" else "t-0"
        wait_until(lambda: offline_count(broker) > 0, "the refusal in the metrics", HEALED_S)
        (logged,) = refused(broker, where)
        assert logged["level"] == "error"
        assert logged["reason"] == "No space left on device"
        assert str(logged["file"]).startswith(f"{where}/")
        assert was_refused == (kind not in ("snapshot", "all of the coordinator"))

        disk.free()
        wait_until(lambda: offline_count(broker) == 0, "no partition is offline", HEALED_S)
        wait_until(lambda: healed(broker, where), "the event of the recovery", HEALED_S)
        if code is not ErrorCode.NONE:
            wait_until(lambda: end(wire, aborting, commit=False)[0] not in TRY_AGAIN, "an abort")
        # A new instance of the id `h` aborts the open transaction, as an operator would.
        assert new_identity(wire, "h").producer_id >= 0
        wait_until(
            lambda: last_stable_offset(wire, "t") == end_offset(wire, "t"),
            "the LSO is at the end",
            HEALED_S,
        )
        assert not write_until_rolled(wire, acknowledged)
        assert values(wire, "t") == acknowledged
        stable = last_stable_offset(wire, "t")
        (logged,) = refused(broker, where)
    broker.stop() if kind in STOPPED_CLEANLY else broker.kill()
    broker.start()
    with Wire(broker.address) as wire:
        assert values(wire, "t") == acknowledged
        assert last_stable_offset(wire, "t") == end_offset(wire, "t") == stable


def topics(wire: Wire) -> set[str]:
    return {topic.name or "" for topic in wire.call(MetadataRequest(topics=None), 9).topics}


NEW = {
    "folder": r"^n-\d$",
    "folder of the last partition": r"^n-2$",
    "partition.metadata": r"^n-\d/partition.metadata",
    "first log": r"^n-\d/\d+\.log",
    "everything": r".",
}


@pytest.mark.parametrize("kind", NEW)
def test_a_topic_whose_folders_cannot_be_made_is_refused_and_leaves_nothing(
    broker: Oncelog, disk: FullFor, kind: str
) -> None:
    with Wire(broker.address) as wire:
        disk.fill(NEW[kind])
        for _ in range(3):
            assert created(wire, "n", partitions=3) == [ErrorCode.KAFKA_STORAGE_ERROR]
            assert "n" not in topics(wire)
        if kind != "everything":  # "everything" also refuses a rename
            wait_until(lambda: not list(broker.data.glob("n-?")), "no folder")
        disk.free()
        wait_until(lambda: not list(broker.data.glob("n-?")), "no folder", HEALED_S)
        wait_until(lambda: offline_count(broker) == 0, "no partition is offline", HEALED_S)
        create(wire, "n", partitions=3)
        for partition in range(3):
            sent = produce(wire, "n", build_batch(records()), partition=partition)
            assert sent.error_code == ErrorCode.NONE
    broker.stop()
    broker.start()
    with Wire(broker.address) as wire:
        assert values(wire, "n", partition=2) == [b"v"]
    assert not list(broker.data.glob("*-stray"))


def test_new_partitions_without_space_for_their_folders_are_created_later(
    broker: Oncelog, disk: FullFor
) -> None:
    """The new partition count stays, because clients may have used it already. The response has an
    error with a message that names this count."""
    more = CreatePartitionsTopic(name="n", count=3, assignments=None)
    request = CreatePartitionsRequest(topics=[more], timeout_ms=10_000)
    with Wire(broker.address) as wire:
        create(wire, "n")
        disk.fill(r"^n-2$")
        (response,) = wire.call(request, 2).results
        assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "'n' has 3 partitions now" in (response.error_message or "")
        assert produce(wire, "n", build_batch(records())).error_code == ErrorCode.NONE
        assert offline_count(broker) > 0
        disk.free()
        wait_until(lambda: offline_count(broker) == 0, "no partition is offline", HEALED_S)
        for partition in range(3):
            sent = produce(wire, "n", build_batch(records()), partition=partition)
            assert sent.error_code == ErrorCode.NONE
        assert values(wire, "n", partition=2) == [b"v"]


def test_a_new_topic_without_room_for_its_leader_epochs_is_served_and_keeps_them(
    broker: Oncelog, disk: FullFor
) -> None:
    with Wire(broker.address) as wire:
        disk.fill("leader-epoch-checkpoint")
        create(wire, "n")
        assert produce(wire, "n", build_batch(records())).error_code == ErrorCode.NONE
        assert offline_count(broker) == 1
        disk.free()
        wait_until(lambda: offline_count(broker) == 0, "no partition is offline", HEALED_S)
    epochs = broker.data / "n-0" / "leader-epoch-checkpoint"
    assert epochs.read_text().splitlines()[2:] == ["0 0"]


@pytest.mark.parametrize("pattern", [r"^__", r"^__transaction_state-0$", "partition.metadata"])
def test_internal_topics_are_made_when_there_is_space_again(tmp_path: Path, pattern: str) -> None:
    """Until then FindCoordinator gets a retriable error, because a coordinator without its
    partition cannot serve."""
    broker, disk = broker_with_full_disk(tmp_path, QUICK)
    broker.start()
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    with Wire(broker.address) as wire:
        disk.fill(pattern)
        for _ in range(3):
            found = wire.call(request, 4).coordinators[0]
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        disk.free()
        for number in range(20):
            new_identity(wire, f"id{number}")
    broker.kill()


def test_a_partition_that_could_not_be_opened_at_the_start_is_opened_later(
    broker: Oncelog, disk: FullFor
) -> None:
    """A start after a crash rebuilds the indexes of older segments. The disk is full for indexes,
    so the rebuild fails."""
    with Wire(broker.address) as wire:
        create(wire, "t", "sound", internal_segment_bytes=SEGMENT_BYTES)
        acknowledged: list[bytes] = []
        write_until_rolled(wire, acknowledged)
        wait_until((broker.data / "recovery-point-offset-checkpoint").exists, "a checkpoint", 5.0)
    broker.kill()
    for path in (broker.data / "t-0").glob("*.index"):
        path.unlink()
    (broker.data / "recovery-point-offset-checkpoint").unlink()
    disk.fill(r"^t-0/\d+\.index")
    broker.start()
    with Wire(broker.address) as wire:
        assert fetch(wire, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert fetch(wire, "sound").error_code == ErrorCode.NONE
        assert offline_count(broker) == 1
        disk.free()
        wait_until(lambda: not fetch(wire, "t").error_code, "the partition is served", HEALED_S)
        wait_until(lambda: offline_count(broker) == 0, "no partition is offline", HEALED_S)
        assert values(wire, "t") == acknowledged
        assert produce(wire, "t", build_batch(records())).error_code == ErrorCode.NONE


def test_a_deleted_partition_leaves_the_disk_when_it_can_be_renamed(
    broker: Oncelog, disk: FullFor
) -> None:
    with Wire(broker.address) as wire:
        create(wire, "t")
        disk.fill("-delete$")
        response = delete(wire, "t")
        assert response is ErrorCode.NONE
        assert (broker.data / "t-0").exists()
        disk.free()
        wait_until(lambda: not (broker.data / "t-0").exists(), "the folder is gone", HEALED_S)


def delete(wire: Wire, topic: str) -> ErrorCode:
    from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest

    response = wire.call(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 4)
    return ErrorCode(response.responses[0].error_code)


def test_a_stop_before_the_txn_index_is_written_is_not_clean(
    broker: Oncelog, disk: FullFor
) -> None:
    with Wire(broker.address) as wire:
        create(wire, "t")
        producer = new_identity(wire, "a")
        send(wire, producer, 0, b"aborted")
        disk.fill("txnindex")
        assert end_transaction(wire, producer, commit=False).error_code == ErrorCode.NONE
    assert broker.stop() == 0
    assert events(broker)[-1]["clean"] is False
    disk.free()
    broker.start()
    with Wire(broker.address) as wire:
        assert values(wire, "t") == []
        assert last_stable_offset(wire, "t") == end_offset(wire, "t") == 2
