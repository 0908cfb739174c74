"""A byte of a file changes while the broker is down. The broker rebuilds the file, or refuses it
and names it. No other partition is affected (scenarios S2-S8)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.list_transactions import ListTransactionsRequest
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog_protocol.records.batch import build_batch, split_batches
from tests.client.cli.conftest import CommandLine
from tests.faults.logs import assert_offline, log_of, wait_for_recovery_point, write
from tests.harness.broker import Oncelog
from tests.harness.driving import (
    QUICK,
    View,
    create,
    damage,
    end_offset,
    events,
    fetch,
    merged,
    offsets_of,
    values,
    view,
)
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    init_producer_id,
    new_identity,
    produce,
    records,
)

SEGMENT_BYTES = 4_000
# A pattern for each kind of file of a partition beside the log.
KINDS = {
    "index": "*.index",
    "timeindex": "*.timeindex",
    "txnindex": "*.txnindex",
    "txn-index-checkpoint": "txn-index-checkpoint",
    "snapshot": "*.snapshot",
    "leader-epoch-checkpoint": "leader-epoch-checkpoint",
}


def fill(wire: Wire, topic: str, producer: Identity) -> Identity:
    """Write several segments with committed and aborted transactions. Return the producer with its
    last epoch."""
    for number in range(12):
        sent = produce(wire, topic, batch(producer, 0, 3, b"%d" % number * 400), producer=producer)
        assert sent.error_code == ErrorCode.NONE, ErrorCode(sent.error_code)
        ended = end_transaction(wire, producer, commit=number % 3 > 0)
        producer = Identity(ended.producer_id, ended.producer_epoch, producer.transactional_id)
    return producer


def files(broker: Oncelog, topic: str, pattern: str) -> list[Path]:
    """Return the non-empty files of partition 0, oldest first."""
    found = sorted((broker.data / f"{topic}-0").glob(pattern))
    return [path for path in found if path.stat().st_size]


@dataclass(frozen=True, slots=True)
class Restarted:
    """A broker that has found damaged files at its start."""

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
    """A broker with one topic for each kind of file beside the log. While the broker is down, all
    files of this kind are damaged in the topic."""
    broker = Oncelog(tmp_path_factory.mktemp("corruption"), QUICK)
    broker.start()
    topics = list(KINDS)
    now_ms = int(time.time() * 1000)
    times = range(now_ms - 1_000, now_ms + 4_000, 500)
    producers: dict[str, Identity] = {}
    with Wire(broker.address) as wire:
        create(wire, *topics, internal_segment_bytes=SEGMENT_BYTES)
        for topic in topics:
            producers[topic] = fill(wire, topic, new_identity(wire, topic))
        open_one = new_identity(wire, "open", timeout_ms=600_000)  # longer than all tests
        for topic in topics:
            assert produce(wire, topic, batch(open_one, 0), producer=open_one).error_code == 0
        before = {topic: view(wire, topic, times) for topic in topics}
    broker.stop() if request.param == "clean stop" else broker.kill()
    for topic, pattern in KINDS.items():
        for path in files(broker, topic, pattern):
            damage(path)
    broker.start()
    yield Restarted(broker, before, producers, times)
    broker.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_s7_a_damaged_file_beside_the_log_is_rebuilt(restarted: Restarted, kind: str) -> None:
    """Clients see the same records as before. An open transaction still holds readers back (S5,
    S7)."""
    before = restarted.before[kind]
    assert before.committed != before.values
    assert before.stable < before.end[2]
    assert restarted.after(kind) == before
    assert restarted.log_lines


def test_s4_s6_producers_are_known_though_their_snapshots_are_damaged(restarted: Restarted) -> None:
    """A batch that the open transaction's producer resends is a duplicate, not a new record."""
    with Wire(restarted.broker.address) as wire:
        producer = Identity(*_producer_of_last_batch(wire, "snapshot"), "open")
        end = end_offset(wire, "snapshot")
        again = produce(wire, "snapshot", batch(producer, 0), producer=producer)
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, end - 1)
        assert end_offset(wire, "snapshot") == end


def _producer_of_last_batch(wire: Wire, topic: str) -> tuple[int, int]:
    data = fetch(wire, topic, end_offset(wire, topic) - 1)
    (_, header) = list(split_batches(data.records or b""))[-1]
    return header.producer_id, header.producer_epoch


# --- the log itself


def assert_said(broker: Oncelog, path: Path, position: int) -> None:
    """Check that a log event names the file and the position of the damage."""
    logged = [
        event for event in events(broker)
        if str(event.get("file", "")).endswith(f"{path.parent.name}/{path.name}")
    ]  # fmt: skip
    assert logged, broker.said()
    assert (logged[-1]["level"], logged[-1]["position"]) == ("error", position)


def test_s3d_damage_below_the_recovery_point_takes_the_partition_offline(broker: Oncelog) -> None:
    """After a kill, and at later starts, no log is truncated and other logs are served."""
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


def test_a_decided_transaction_of_an_offline_partition_is_not_aborted_by_the_command(
    broker: Oncelog,
) -> None:
    """The transaction is committed, but its commit marker cannot be written to the offline
    partition yet. An abort marker that comes first would drop the records, so `oncelog transactions
    abort` refuses."""
    with Wire(broker.address) as wire:
        create(wire, "bad", flush_messages=1)
        positions = write(wire, "bad", 5)
        producer = new_identity(wire, "p")
        assert (
            produce(wire, "bad", batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
        )
    wait_for_recovery_point(broker, "bad", 6)
    broker.kill()
    damage(log_of(broker, "bad"), positions[2] + 100)
    broker.start()
    with Wire(broker.address) as wire:
        assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE
    refused = CommandLine(broker.address).refused(
        *("transactions", "abort", "--topic", "bad", "--partition", "0"),
        *(
            "--producer-id",
            str(producer.producer_id),
            "--producer-epoch",
            str(producer.producer_epoch),
        ),
        *("--coordinator-epoch", "0"),
    )
    assert "p has a transaction in bad-0 (PrepareCommit)" in refused
    assert "`oncelog transactions describe p`" in refused


def test_s3d_damage_above_the_recovery_point_truncates_the_log_with_a_log_event(
    broker: Oncelog,
) -> None:
    """The broker truncates the log as Kafka does. A log event says if valid batches followed the
    cut."""
    with Wire(broker.address) as wire:
        create(wire, "bad", "sound")
        positions = write(wire, "bad", 5)
    broker.kill()
    damage(log_of(broker, "bad"), positions[2] + 100)
    broker.start()
    with Wire(broker.address) as wire:
        assert len(values(wire, "bad")) == 2
        assert produce(wire, "bad", build_batch(records())).base_offset == 2
    (logged,) = [event for event in events(broker) if event["event"] == "log recovered"]
    assert logged["cut_file"] == f"bad-0/{0:020}.log"
    assert (logged["cut_position"], logged["valid_batches_followed"]) == (positions[2], True)


@pytest.mark.parametrize("at", ["the last segment", "an older segment"])
def test_s3c_a_header_damaged_after_a_clean_stop_is_never_skipped(broker: Oncelog, at: str) -> None:
    """After a clean stop the broker does not check its files. The first read of the header finds
    the damage, and a log event names the position."""
    with Wire(broker.address) as wire:
        create(wire, "bad", "sound", internal_segment_bytes=SEGMENT_BYTES)
        positions = write(wire, "bad", 16)
    broker.stop()
    logs = files(broker, "bad", "*.log")
    path = logs[-1] if at == "the last segment" else logs[0]
    damage(path, 16)  # the magic of the first batch
    broker.start()
    with Wire(broker.address) as wire:
        if at == "the last segment":
            assert_offline(broker, "bad")
        else:
            assert fetch(wire, "bad", 1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert fetch(wire, "bad", 15).error_code == ErrorCode.NONE
            assert produce(wire, "bad", build_batch(records())).base_offset == 16
    assert_said(broker, path, positions[0])


def test_s3c_without_recovery_points_a_damaged_log_is_cut_at_its_damage(broker: Oncelog) -> None:
    """The steps of docs/backup.md without a copy of the log. The other partitions keep all."""
    with Wire(broker.address) as wire:
        create(wire, "bad", "sound")
        positions = write(wire, "bad", 5)
        write(wire, "sound", 3)
    broker.stop()
    damage(log_of(broker, "bad"), positions[2] + 16)  # the magic of the third batch
    broker.start()
    assert_offline(broker, "bad")
    (logged,) = [
        event
        for event in events(broker)
        if event["event"] == "partition offline: its log is damaged"
    ]
    assert "docs/backup.md#a-damaged-log" in logged["what_to_do"]
    broker.stop()
    (broker.data / "recovery-point-offset-checkpoint").unlink()
    broker.start()
    with Wire(broker.address) as wire:
        assert len(values(wire, "bad")) == 2
        assert len(values(wire, "sound")) == 4
        assert produce(wire, "bad", build_batch(records())).base_offset == 2
    (logged,) = [event for event in events(broker) if event["event"] == "log recovered"]
    assert logged["cut_position"] == positions[2]


def test_s3c_a_body_damaged_after_a_clean_stop_is_found_by_the_readers_crc(broker: Oncelog) -> None:
    """S3c: as in Kafka, the broker sends the whole batch unchanged, and the reader checks the
    CRC."""
    with Wire(broker.address) as wire:
        create(wire, "bad")
        positions = write(wire, "bad", 3)
    broker.stop()
    path = log_of(broker, "bad")
    damage(path, positions[1] + 100)
    broker.start()
    with Wire(broker.address) as wire:
        assert bytes(fetch(wire, "bad").records or b"") == path.read_bytes()


@pytest.mark.parametrize("internal", ["__transaction_state", "__consumer_offsets"])
def test_s14_a_coordinator_whose_log_is_damaged_refuses_to_serve(
    tmp_path: Path, internal: str
) -> None:
    """A coordinator never serves a part of its state. It responds with code 15 or 16, which
    clients retry, and a log event names the file. Other requests are served, and committed records
    can be read."""
    settings = merged(QUICK, {"oncelog.flush.on.ack": "true"})
    broker = Oncelog(tmp_path, settings | {"log.flush.offset.checkpoint.interval.ms": "50"})
    broker.start()
    with Wire(broker.address) as wire:
        create(wire, "t", "open")
        producer = new_identity(wire, "t")
        assert (
            produce(wire, "t", batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
        )
        ended = end_transaction(wire, producer, commit=True)
        assert ended.error_code == ErrorCode.NONE
        producer = Identity(ended.producer_id, ended.producer_epoch, producer.transactional_id)
        if internal == "__transaction_state":
            assert (
                produce(wire, "open", batch(producer, 0), producer=producer).error_code
                == ErrorCode.NONE
            )
        find_coordinator(wire, "g", key_type=0)
        assert commit_offset(wire) is ErrorCode.NONE
    (path,) = [path for path in broker.data.glob(f"{internal}-*/*.log") if path.stat().st_size]
    partition = (internal, int(path.parent.name.rpartition("-")[2]))
    checkpoint = broker.data / "recovery-point-offset-checkpoint"
    wait_until(lambda: offsets_of(checkpoint).get(partition, 0) > 0, "the log is durable")
    broker.kill()
    damage(path, 80)
    broker.start()
    assert_said(broker, path, 0)
    with Wire(broker.address) as wire:
        assert len(values(wire, "t")) == 1
        assert produce(wire, "t", build_batch(records())).error_code == ErrorCode.NONE

        def answered() -> tuple[ErrorCode, ErrorCode]:
            return ErrorCode(init_producer_id(wire, "t").error_code), commit_offset(wire)

        wait_until(
            lambda: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS not in answered(), "both have loaded"
        )
        codes = answered()
        refused = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
        assert codes[internal == "__consumer_offsets"] in refused
        assert codes[internal != "__consumer_offsets"] is ErrorCode.NONE
        if internal == "__transaction_state":
            assert_nothing_hangs(broker, wire, producer)
    assert broker.stop() == 0
    events(broker)


def assert_nothing_hangs(broker: Oncelog, wire: Wire, producer: Identity) -> None:
    """Check the commands for hanging transactions. The coordinator of the open transaction in
    "open" is not available. The transaction may be about to commit, so the commands neither report
    nor abort it."""
    before = end_offset(wire, "open")
    for version in range(3):
        listed = wire.call(ListTransactionsRequest(), version)
        assert ErrorCode(listed.error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert listed.transaction_states == []
    call = CommandLine(broker.address)
    # Enough for one response under load; the command waits that long in every case.
    give_up = ("--give-up-after", "3")
    blocking = ("transactions", "blocking", "open", *give_up)
    hanging = ("transactions", "find-hanging", "--topic", "open", "--max-transaction-timeout", "0")
    marker = ("transactions", "abort", "--topic", "open", "--partition", "0")
    for arguments in (
        blocking,
        (*blocking, "--abort", str(producer.producer_id)),
        (*hanging, *give_up),
        (*marker, "--start-offset", "0", *give_up),
    ):
        said = call.refused(*arguments)
        assert "COORDINATOR_NOT_AVAILABLE" in said
        assert "cannot read a partition of __transaction_state" in said
        assert ("nothing was aborted" in said) is ("abort" in arguments or "--abort" in arguments)
    assert end_offset(wire, "open") == before


def commit_offset(wire: Wire) -> ErrorCode:
    """Send OffsetCommit for a group without members."""
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name="t", partitions=[place])
    response = wire.call(OffsetCommitRequest(group_id="g", topics=[topic]), 8)
    return ErrorCode(response.topics[0].partitions[0].error_code)
