"""Damaged files of the data directory itself. The broker writes such a file again, starts without
it, or refuses to start and names it (scenario S8)."""

from __future__ import annotations

import os
import socket
import sqlite3
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.faults.logs import assert_offline, log_of, wait_for_recovery_point, write
from tests.harness.broker import Oncelog, Process
from tests.harness.driving import (
    EARLIEST,
    create,
    damage,
    end_offset,
    events,
    list_offset,
    refusal,
    values,
)
from tests.harness.waiting import wait_until


def test_a_damaged_partition_metadata_file_is_written_again_or_refused(broker: Oncelog) -> None:
    """If the file is unreadable, the broker writes it again from the metadata. A readable file with
    another topic id belongs to an unknown topic, so the broker refuses to start."""
    with Wire(broker.address) as wire:
        create(wire, "unreadable", "other")
        for topic in ("unreadable", "other"):
            write(wire, topic, 1)
    broker.stop()
    of = {
        topic: broker.data / f"{topic}-0" / "partition.metadata"
        for topic in ("unreadable", "other")
    }
    damage(of["unreadable"], 0)
    sound = of["other"].read_text()
    at = sound.index("topic_id: ") + 12
    of["other"].write_text(sound[:at] + ("A" if sound[at] != "A" else "B") + sound[at + 1 :])
    said = refusal(broker)
    assert "it does not contain other-0" in said
    assert "oncelog storage recover" in said
    of["other"].write_text(sound)
    broker.start()
    with Wire(broker.address) as wire:
        assert len(values(wire, "unreadable")) == len(values(wire, "other")) == 1


@pytest.mark.parametrize("lock", ["BEGIN EXCLUSIVE", "BEGIN IMMEDIATE"])
def test_a_start_names_the_metadata_store_that_another_process_has_locked(
    broker: Oncelog, lock: str
) -> None:
    with Wire(broker.address) as wire:
        create(wire, "kept")
        write(wire, "kept", 1)
    broker.stop()
    store = broker.data / "oncelog-metadata.sqlite"
    # The process of the test is the other process.
    other = sqlite3.connect(store, isolation_level=None)
    other.execute(lock)
    said = refusal(broker)
    assert (
        f"oncelog cannot start: metadata store {store} is locked by another process: end that "
        "process, then try again"
    ) in said
    assert "Traceback" not in said
    other.close()
    broker.start()
    with Wire(broker.address) as wire:
        assert len(values(wire, "kept")) == 1


def _rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("how", ["clean stop", "kill"])
def test_s8_unreadable_checkpoints_are_ignored_without_loss_of_a_record(
    broker: Oncelog, how: str
) -> None:
    """S8: the logs have the same contents, except that deleted records may be visible again. A log
    event names the checkpoints."""
    with Wire(broker.address) as wire:
        create(wire, "t")
        write(wire, "t", 4)
        _delete_records(wire, "t", 2)
    broker.stop() if how == "clean stop" else broker.kill()
    names = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
    for name in names:
        damage(broker.data / name, 0)
    broker.start()
    with Wire(broker.address) as wire:
        assert len(values(wire, "t")) in (2, 4)
        assert end_offset(wire, "t") == 4
    logged = [event["file"] for event in events(broker) if event["event"] == "checkpoint ignored"]
    assert logged == [str(broker.data / name) for name in names]


@pytest.mark.parametrize("how", ["clean stop", "kill"])
def test_s8_a_partition_goes_offline_if_a_checkpoint_contradicts_its_log(
    broker: Oncelog, how: str
) -> None:
    """A checkpoint contradicts the log if a digit of the checkpoint is damaged, or if the log has
    lost records. The broker cannot distinguish these causes, so the partition serves no client and
    nothing is deleted. There is one exception: after a crash, a log may end below its log start
    offset, because a power failure has taken its end. As in Kafka, the log is then empty and begins
    at that offset, and a log event says so."""
    with Wire(broker.address) as wire:
        create(wire, "point", "start", "sound", flush_messages=1)
        for topic in ("point", "start"):
            write(wire, topic, 4)
        _delete_records(wire, "start", 2)
    for topic in ("point", "start"):
        wait_for_recovery_point(broker, topic, 4)
    broker.stop() if how == "clean stop" else broker.kill()
    whole = {topic: log_of(broker, topic).read_bytes() for topic in ("point", "start")}
    _rewrite(broker.data / "recovery-point-offset-checkpoint", "point 0 4", "point 0 7")
    _rewrite(broker.data / "log-start-offset-checkpoint", "start 0 2", "start 0 9")
    broker.start()
    said = str(events(broker))
    assert "log-start-offset-checkpoint" in said
    assert "its recovery point is 7" in said
    assert_offline(broker, "point")
    assert log_of(broker, "point").read_bytes() == whole["point"]
    if how == "clean stop":
        assert_offline(broker, "start")
        assert log_of(broker, "start").read_bytes() == whole["start"]
    else:
        with Wire(broker.address) as wire:
            assert (list_offset(wire, "start", EARLIEST)[2], end_offset(wire, "start")) == (9, 9)


def _delete_records(wire: Wire, topic: str, before: int) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [partition])], timeout_ms=10_000)
    assert wire.call(request).topics[0].partitions[0].error_code == ErrorCode.NONE


def test_a_damaged_kafka_cleanshutdown_file_counts_as_a_clean_stop(broker: Oncelog) -> None:
    """As in Kafka, only the existence of `.kafka_cleanshutdown` counts."""
    broker.stop()
    damage(broker.data / ".kafka_cleanshutdown")
    broker.start()
    assert events(broker)[-1]["clean"] is True


def test_a_start_that_fails_at_a_port_in_use_causes_no_recovery(broker: Oncelog) -> None:
    """The start fails before it changes anything. The next start still finds a clean stop."""
    broker.stop()
    with socket.create_server((broker.host, broker.port)):
        assert str(broker.port) in refusal(broker)
    broker.start()
    assert events(broker)[-1]["clean"] is True


def test_a_start_with_a_damaged_meta_properties_fails_and_names_the_file(broker: Oncelog) -> None:
    """The start changes no data. With a repaired file, the stop still counts as clean."""
    broker.stop()
    path = broker.data / "meta.properties"
    sound = path.read_bytes()
    for position in (0, sound.index(b"node.id=") + 8):
        damage(path, position)
        assert str(path) in refusal(broker)
        path.write_bytes(sound)
    broker.start()
    assert events(broker)[-1]["clean"] is True


def test_a_start_with_damaged_metadata_succeeds_or_names_the_file(broker: Oncelog) -> None:
    with Wire(broker.address) as wire:
        create(wire, *(f"t{number}" for number in range(40)))
    broker.stop()
    path = broker.data / "oncelog-metadata.sqlite"
    sound = path.read_bytes()
    # Positions in the SQLite file: in the magic, in the first page, and in records.
    for position in (0, 100, len(sound) // 2):
        path.write_bytes(sound[:position] + os.urandom(16) + sound[position + 16 :])
        if (process := broker.spawn()).poll() is None:
            wait_until(lambda: _is_up_or_over(broker, process), "the broker listens or ends")
        if process.poll() is not None:
            said = broker.log.read_text().splitlines()[-1]
            assert "oncelog-metadata.sqlite" in said, said
        broker.kill()
        assert "Traceback" not in broker.log.read_text()
        for left in broker.data.glob("oncelog-metadata.sqlite-*"):
            left.unlink()


def _is_up_or_over(broker: Oncelog, process: Process) -> bool:
    return process.poll() is not None or "listening" in broker.output.read_text()
