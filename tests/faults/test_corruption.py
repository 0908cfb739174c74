"""A byte that changed while the broker was down: rebuilt, or refused by name; nobody else suffers
(section 3 of the specification; reliability brief S2-S8)."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog_protocol.records.batch import build_batch, split_batches
from tests.broker import Oncelog
from tests.conformance.waiting import wait_until
from tests.conformance.wire import Wire
from tests.conformance.writing import (
    Identity,
    batch,
    end_transaction,
    new_identity,
    produce,
    records,
)
from tests.faults.driving import (
    EARLIEST,
    QUICK,
    View,
    create,
    damage,
    end_offset,
    events,
    fetch,
    list_offset,
    merged,
    offsets_of,
    refusal,
    values,
    view,
)

SEGMENT_BYTES = 4_000
# How the files of a partition are found; the last of its kind is that of the active segment.
KINDS = {
    "index": "*.index",
    "timeindex": "*.timeindex",
    "txnindex": "*.txnindex",
    "txn-index-checkpoint": "txn-index-checkpoint",
    "snapshot": "*.snapshot",
    "leader-epoch-checkpoint": "leader-epoch-checkpoint",
}


def fill(wire: Wire, topic: str, who: Identity) -> Identity:
    """Several segments, with transactions of both ends in them; who goes on with it."""
    for number in range(12):
        sent = produce(wire, topic, batch(who, 0, 3, b"%d" % number * 400), who=who)
        assert sent.error_code == ErrorCode.NONE, ErrorCode(sent.error_code)
        ended = end_transaction(wire, who, commit=number % 3 > 0)
        who = Identity(ended.producer_id, ended.producer_epoch, who.transactional_id)
    return who


def files(broker: Oncelog, topic: str, pattern: str) -> list[Path]:
    """Those of partition 0 that are not empty, oldest first."""
    found = sorted((broker.data / f"{topic}-0").glob(pattern))
    return [path for path in found if path.stat().st_size]


@dataclass(frozen=True, slots=True)
class Restarted:
    """A broker that met damaged files at its start."""

    broker: Oncelog
    before: dict[str, View]
    producers: dict[str, Identity]
    times: range

    @property
    def log_lines(self) -> list[dict[str, object]]:
        return events(self.broker)

    def after(self, topic: str) -> View:
        with Wire(self.broker.address) as wire:
            return view(wire, topic, self.times)


@pytest.fixture(scope="module", params=["clean stop", "kill"])
def restarted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Restarted]:
    """One topic for each kind of file beside the logs, all damaged in one stop."""
    broker = Oncelog(tmp_path_factory.mktemp("corruption"), QUICK)
    broker.start()
    topics = list(KINDS)
    now_ms = int(time.time() * 1000)
    times = range(now_ms - 1_000, now_ms + 4_000, 500)
    producers: dict[str, Identity] = {}
    with Wire(broker.address) as wire:
        create(wire, *topics, segment_bytes=SEGMENT_BYTES)
        for topic in topics:
            producers[topic] = fill(wire, topic, new_identity(wire, topic))
        open_one = new_identity(wire, "open")
        for topic in topics:
            assert produce(wire, topic, batch(open_one, 0), who=open_one).error_code == 0
        before = {topic: view(wire, topic, times) for topic in topics}
    broker.stop() if request.param == "clean stop" else broker.kill()
    for topic, pattern in KINDS.items():
        for path in files(broker, topic, pattern):
            damage(path)
    broker.start()
    yield Restarted(broker, before, producers, times)
    broker.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_beside_the_log_is_rebuilt(restarted: Restarted, kind: str) -> None:
    """Clients see what they saw before; an open transaction still holds readers back (S5, S7)."""
    before = restarted.before[kind]
    assert before.committed != before.values
    assert before.stable < before.end[2]
    assert restarted.after(kind) == before
    assert restarted.log_lines


def test_producers_are_known_though_their_snapshots_are_damaged(restarted: Restarted) -> None:
    """What the open transaction's producer sends again is a duplicate, not a new record."""
    with Wire(restarted.broker.address) as wire:
        who = Identity(*_producer_of_last_batch(wire, "snapshot"), "open")
        end = end_offset(wire, "snapshot")
        again = produce(wire, "snapshot", batch(who, 0), who=who)
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, end - 1)
        assert end_offset(wire, "snapshot") == end


def _producer_of_last_batch(wire: Wire, topic: str) -> tuple[int, int]:
    data = fetch(wire, topic, end_offset(wire, topic) - 1)
    (_, header) = list(split_batches(data.records or b""))[-1]
    return header.producer_id, header.producer_epoch


# --- the log itself


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oncelog]:
    broker = Oncelog(tmp_path, merged(QUICK, {"log.flush.offset.checkpoint.interval.ms": "100"}))
    broker.start()
    yield broker
    broker.kill()


def write(wire: Wire, topic: str, count: int, size: int = 400) -> list[int]:
    """Batches of one record, and the position of each in a log of one segment."""
    positions, position = [], 0
    for number in range(count):
        data = build_batch(records(1, b"%d" % number * size))
        assert produce(wire, topic, data).error_code == ErrorCode.NONE
        positions.append(position)
        position += len(data)
    return positions


def log_of(broker: Oncelog, topic: str) -> Path:
    return broker.data / f"{topic}-0" / f"{0:020}.log"


def wait_for_recovery_point(broker: Oncelog, topic: str, offset: int) -> None:
    path = broker.data / "recovery-point-offset-checkpoint"
    wait_until(lambda: offsets_of(path).get((topic, 0)) == offset, f"a recovery point of {offset}")


def assert_offline(broker: Oncelog, topic: str) -> None:
    """56 for all requests, and everybody else is served."""
    with Wire(broker.address) as wire:
        storage_error = ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(wire, topic, build_batch(records())).error_code == storage_error
        assert fetch(wire, topic).error_code == storage_error
        assert list_offset(wire, topic, -1)[0] == storage_error
        assert produce(wire, "sound", build_batch(records())).error_code == ErrorCode.NONE


def assert_said(broker: Oncelog, path: Path, position: int) -> None:
    """A line in the log names the file and the position."""
    told = [
        event for event in events(broker)
        if str(event.get("file", "")).endswith(f"{path.parent.name}/{path.name}")
    ]  # fmt: skip
    assert told, broker.said()
    assert (told[-1]["level"], told[-1]["position"]) == ("error", position)


def test_below_the_recovery_point_the_partition_goes_offline(broker: Oncelog) -> None:
    """After a kill, and again at the starts after it: nothing is cut, nobody else suffers."""
    with Wire(broker.address) as wire:
        create(wire, "bad", "sound", flush_messages=1)
        positions = write(wire, "bad", 5)
    wait_for_recovery_point(broker, "bad", 5)
    broker.kill()
    path = log_of(broker, "bad")
    damage(path, positions[2] + 100)
    whole = path.read_bytes()
    broker.start()
    assert_offline(broker, "bad")
    assert_said(broker, path, positions[2])
    assert broker.stop() == 0
    broker.start()
    assert_offline(broker, "bad")
    assert path.read_bytes() == whole


def test_above_the_recovery_point_the_log_is_cut_and_the_broker_says_so(broker: Oncelog) -> None:
    """As Kafka does; valid batches behind the cut are worth a word."""
    with Wire(broker.address) as wire:
        create(wire, "bad", "sound")
        positions = write(wire, "bad", 5)
    broker.kill()
    damage(log_of(broker, "bad"), positions[2] + 100)
    broker.start()
    with Wire(broker.address) as wire:
        assert len(values(wire, "bad")) == 2
        assert produce(wire, "bad", build_batch(records())).base_offset == 2
    (told,) = [event for event in events(broker) if event["event"] == "log recovered"]
    assert told["cut_file"] == f"bad-0/{0:020}.log"
    assert (told["cut_position"], told["valid_batches_followed"]) == (positions[2], True)


@pytest.mark.parametrize("at", ["the last segment", "an older segment"])
def test_a_header_damaged_after_a_clean_stop_is_never_skipped(broker: Oncelog, at: str) -> None:
    """The broker that trusts its files finds it when it walks there, and names the place."""
    with Wire(broker.address) as wire:
        create(wire, "bad", "sound", segment_bytes=SEGMENT_BYTES)
        positions = write(wire, "bad", 16)
    broker.stop()
    logs = files(broker, "bad", "*.log")
    path = logs[-1] if at == "the last segment" else logs[0]
    damage(path, 16)  # the magic of its first batch
    broker.start()
    with Wire(broker.address) as wire:
        if at == "the last segment":
            assert_offline(broker, "bad")
        else:
            assert fetch(wire, "bad", 1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert fetch(wire, "bad", 15).error_code == ErrorCode.NONE
            assert produce(wire, "bad", build_batch(records())).base_offset == 16
    assert_said(broker, path, positions[0])


def test_a_body_damaged_after_a_clean_stop_is_found_by_the_readers_crc(broker: Oncelog) -> None:
    """S3c: as in Kafka, who reads checks. The batch goes out as it is, not shortened."""
    with Wire(broker.address) as wire:
        create(wire, "bad")
        positions = write(wire, "bad", 3)
    broker.stop()
    path = log_of(broker, "bad")
    damage(path, positions[1] + 100)
    broker.start()
    with Wire(broker.address) as wire:
        assert bytes(fetch(wire, "bad").records or b"") == path.read_bytes()


# --- the data directory itself


def test_a_damaged_partition_metadata_is_written_again_or_refused(broker: Oncelog) -> None:
    """Unreadable, it is made from the metadata; readable, it belongs to another topic."""
    with Wire(broker.address) as wire:
        create(wire, "unreadable", "other", "sound")
        for topic in ("unreadable", "other"):
            write(wire, topic, 1)
    broker.stop()
    of = {
        topic: broker.data / f"{topic}-0" / "partition.metadata"
        for topic in ("unreadable", "other")
    }
    damage(of["unreadable"], 0)
    text = of["other"].read_text()
    at = text.index("topic_id: ") + 12
    of["other"].write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :])
    broker.start()
    with Wire(broker.address) as wire:
        assert len(values(wire, "unreadable")) == 1
    assert_offline(broker, "other")
    told = {str(event["event"]): event for event in events(broker)}
    assert told["partition of no topic put aside"]["directory"] == "other-0"
    assert str(told["partition of no topic put aside"]["now"]).endswith("-stray")


@pytest.mark.parametrize("how", ["clean stop", "kill"])
def test_a_recovery_point_beyond_the_log_is_refused(broker: Oncelog, how: str) -> None:
    """A damaged digit, or records that are gone: nobody can know, so nobody is served."""
    with Wire(broker.address) as wire:
        create(wire, "bad", "sound", flush_messages=1)
        write(wire, "bad", 3)
    wait_for_recovery_point(broker, "bad", 3)
    broker.stop() if how == "clean stop" else broker.kill()
    _rewrite(broker.data / "recovery-point-offset-checkpoint", "bad 0 3", "bad 0 7")
    broker.start()
    assert_offline(broker, "bad")
    assert "went to 7 before" in broker.said()


def _rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("how", ["clean stop", "kill"])
def test_unreadable_checkpoints_cost_time_and_no_record(broker: Oncelog, how: str) -> None:
    """S8: what they said is found out from the logs, and the operator hears of it."""
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
    told = [event["file"] for event in events(broker) if event["event"] == "checkpoint ignored"]
    assert told == [str(broker.data / name) for name in names]


@pytest.mark.parametrize("how", ["clean stop", "kill"])
def test_a_log_start_beyond_the_log_deletes_nothing_silently(broker: Oncelog, how: str) -> None:
    """After a clean stop a digit is damaged, and nobody is served; after a crash the end of the
    log may be lost: as in Kafka the log begins anew there, and the operator hears of it."""
    with Wire(broker.address) as wire:
        create(wire, "bad", "sound")
        write(wire, "bad", 4)
        _delete_records(wire, "bad", 2)
    broker.stop() if how == "clean stop" else broker.kill()
    path = log_of(broker, "bad")
    whole = path.read_bytes()
    _rewrite(broker.data / "log-start-offset-checkpoint", "bad 0 2", "bad 0 9")
    broker.start()
    assert "log-start-offset-checkpoint" in str(events(broker))
    if how == "clean stop":
        assert_offline(broker, "bad")
        assert path.read_bytes() == whole
    else:
        with Wire(broker.address) as wire:
            assert (list_offset(wire, "bad", EARLIEST)[2], end_offset(wire, "bad")) == (9, 9)


def _delete_records(wire: Wire, topic: str, before: int) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [partition])], timeout_ms=10_000)
    assert wire.call(request).topics[0].partitions[0].error_code == ErrorCode.NONE


def test_the_clean_mark_is_a_name_and_no_content(broker: Oncelog) -> None:
    """A damaged mark is a mark, as in Kafka."""
    broker.stop()
    damage(broker.data / ".kafka_cleanshutdown")
    broker.start()
    assert events(broker)[-1]["clean"] is True


def test_damaged_meta_properties_are_refused_by_name(broker: Oncelog) -> None:
    """And the data stays as it was: once the file is right again, the stop was a clean one."""
    broker.stop()
    path = broker.data / "meta.properties"
    sound = path.read_bytes()
    for position in (0, 12, sound.index(b"node.id=") + 8):
        damage(path, position)
        assert str(path) in refusal(broker)
        path.write_bytes(sound)
    broker.start()
    assert events(broker)[-1]["clean"] is True


def test_damaged_metadata_is_refused_by_name_or_does_no_harm(broker: Oncelog) -> None:
    with Wire(broker.address) as wire:
        create(wire, *(f"t{number}" for number in range(40)))
    broker.stop()
    path = broker.data / "oncelog-metadata.sqlite"
    sound = path.read_bytes()
    # The magic, the header, the first page, tables and records.
    for position in (0, 20, 100, *range(4096, len(sound), len(sound) // 4)):
        path.write_bytes(sound[:position] + os.urandom(16) + sound[position + 16 :])
        if (process := broker.spawn()).poll() is None:
            wait_until(lambda: _is_up_or_over(broker, process), "a start, or a refusal")
        if process.poll() is not None:
            said = broker.log.read_text().splitlines()[-1]
            assert "oncelog-metadata.sqlite" in said, said
        broker.kill()
        assert "Traceback" not in broker.log.read_text()
        for left in broker.data.glob("oncelog-metadata.sqlite-*"):
            left.unlink()


def _is_up_or_over(broker: Oncelog, process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None or "listening" in broker.output.read_text()
