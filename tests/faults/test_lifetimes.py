"""Old data and restarted processes: retention, rolls, DeleteRecords, deleted topics, restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from tests.conformance.clients import Aiokafka, Client, Confluent, Record
from tests.conformance.polling import read
from tests.harness.broker import Oncelog
from tests.harness.driving import (
    EARLIEST,
    QUICK,
    create,
    end_offset,
    events,
    fetch,
    last_stable_offset,
    list_offset,
    merged,
    refusal,
    values,
)
from tests.harness.waiting import wait_until
from tests.harness.watch import queued_s
from tests.harness.writing import produce, records

OFTEN = {
    "log.retention.check.interval.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "file.delete.delay.ms": "100",
}
PARTITIONS = 1_000
# Far above the measured time, because computers may be busy.
RESTART_S = 10.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    settings = {name.replace("file.", "log.segment."): value for name, value in OFTEN.items()}
    with Oncelog(tmp_path_factory.mktemp("lifetimes"), merged(QUICK, settings)) as broker:
        yield broker
        events(broker)


@pytest.fixture
def wire(broker: Oncelog) -> Iterator[Wire]:
    with Wire(broker.address) as wire:
        yield wire


def start_offset(wire: Wire, topic: str) -> int:
    return list_offset(wire, topic, EARLIEST)[2]


def segments(broker: Oncelog, topic: str) -> list[int]:
    """Return the base offsets of the segments in use."""
    return sorted(int(path.stem) for path in (broker.data / f"{topic}-0").glob("*.log"))


def fill(wire: Wire, topic: str, count: int, *, age_ms: int = 0) -> None:
    """Write batches of one record of 400 bytes, with timestamps of this age."""
    timestamp = int(time.time() * 1000) - age_ms
    for _ in range(count):
        data = build_batch([NewRecord(timestamp, None, b"v" * 400)])
        assert produce(wire, topic, data).error_code == ErrorCode.NONE


def test_retention_by_time(broker: Oncelog, wire: Wire) -> None:
    """Segments with old records are deleted with their files. Younger segments stay."""
    create(
        wire,
        "by-time",
        internal_segment_bytes=2_000,
        segment_ms=60_000,  # so that younger records begin a new segment
        retention_ms=60_000,
        file_delete_delay_ms=100,
    )
    fill(wire, "by-time", 12, age_ms=3_600_000)
    fill(wire, "by-time", 4)
    wait_until(lambda: start_offset(wire, "by-time") == 12, "the old segments are deleted")
    directory = broker.data / "by-time-0"
    wait_until(
        lambda: not list(directory.glob("*.deleted")), "the files of the old segments are unlinked"
    )
    assert segments(broker, "by-time") == [12]
    assert len(values(wire, "by-time")) == 4
    assert fetch(wire, "by-time", 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_retention_by_size(broker: Oncelog, wire: Wire) -> None:
    create(wire, "by-size", internal_segment_bytes=2_000, retention_bytes=4_000)
    fill(wire, "by-size", 32)
    wait_until(lambda: len(segments(broker, "by-size")) <= 3, "the oldest segments are deleted")
    start = start_offset(wire, "by-size")
    assert start == segments(broker, "by-size")[0] > 0
    assert len(values(wire, "by-size")) == 32 - start


def test_segments_roll_by_size_and_by_time(broker: Oncelog, wire: Wire) -> None:
    """A new segment begins with a record that does not fit, or with a record that is `segment.ms`
    later than the first."""
    create(wire, "rolls", internal_segment_bytes=1_500, segment_ms=60_000)
    fill(wire, "rolls", 2, age_ms=3_600_000)
    fill(wire, "rolls", 4)
    assert segments(broker, "rolls") == [0, 2, 5]
    assert len(values(wire, "rolls")) == 6


def delete_records(wire: Wire, topic: str, before: int) -> tuple[int, int]:
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [partition])], timeout_ms=10_000)
    response = wire.call(request).topics[0].partitions[0]
    return response.error_code, response.low_watermark


def test_deleted_records_stay_deleted_after_a_kill(tmp_path: Path) -> None:
    """The deletion is durable once the response is sent, even before the next checkpoint."""
    broker = Oncelog(tmp_path, QUICK)
    broker.start()
    with Wire(broker.address) as wire:
        create(wire, "t")
        fill(wire, "t", 6)
        assert delete_records(wire, "t", 4) == (ErrorCode.NONE, 4)
    broker.kill()
    broker.start()
    with Wire(broker.address) as wire:
        assert start_offset(wire, "t") == 4
        assert len(values(wire, "t")) == 2
    broker.stop()


def test_a_topic_that_is_deleted_while_it_is_read(broker: Oncelog, wire: Wire) -> None:
    """A parked Fetch gets UNKNOWN_TOPIC_OR_PARTITION or NOT_LEADER_OR_FOLLOWER at once. The files
    are deleted, and a new topic of the same name is empty."""
    create(wire, "gone")
    fill(wire, "gone", 5)
    reader = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "gone",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 200,
            "log_level": 0,
        }
    )
    reader.assign([TopicPartition("gone", 0, 0)])
    read: list[object] = []

    def has_read_all() -> bool:
        # A later poll would return the remaining records after the deletion.
        read.extend(reader.consume(5, 0.2))
        return len(read) == 5

    wait_until(has_read_all, "the reader has all records")
    with Wire(broker.address) as parked:
        parked.send(_long_fetch("gone", 5), 12)
        response = wire.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")]), 6)
        assert response.responses[0].error_code == ErrorCode.NONE
        answered = parked.answer().responses[0].partitions[0].error_code
    assert answered in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
    wait_until(lambda: not list(broker.data.glob("gone-0*")), "the files are gone")
    create(wire, "gone")
    assert values(wire, "gone") == []
    assert produce(wire, "gone", build_batch(records())).base_offset == 0
    assert all(
        record.error() is not None or record.offset() == 0 for record in reader.consume(5, 0.5)
    )
    reader.close()


def _long_fetch(topic: str, offset: int) -> FetchRequest:
    wanted = FetchTopic(topic=topic, partitions=[FetchPartition(0, fetch_offset=offset)])
    return FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[wanted])


# --- restarts


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    broker = Oncelog(tmp_path, QUICK)
    broker.start()
    broker.kill()
    assert (broker.data / ".lock").exists()
    (broker.data / ".lock").write_text("12345\n")
    broker.start()
    assert broker.stop() == 0


def test_data_of_another_node_is_refused(tmp_path: Path) -> None:
    """The message has both ids, and nothing is changed."""
    with Oncelog(tmp_path, QUICK | {"node.id": "1"}) as broker, Wire(broker.address) as wire:
        create(wire, "t")
        fill(wire, "t", 1)
    said = refusal(Oncelog(tmp_path, QUICK | {"node.id": "7"}))
    assert "belongs to node 1 of cluster" in said
    assert "not to node 7" in said
    assert str(tmp_path / "data") in said
    with Oncelog(tmp_path, QUICK | {"node.id": "1"}) as again, Wire(again.address) as wire:
        assert len(values(wire, "t")) == 1
        assert events(again)[-1]["clean"] is True


def test_a_thousand_partitions_start_again(
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The test starts the broker after a clean stop and after a kill, and prints the times."""
    broker = Oncelog(tmp_path, QUICK)
    broker.start()
    with Wire(broker.address) as wire:
        wire.socket.settimeout(60)  # the broker creates thousands of files
        create(wire, "t", partitions=PARTITIONS)
        for partition in range(0, PARTITIONS, 10):
            sent = produce(wire, "t", build_batch(records()), partition=partition)
            assert sent.error_code == ErrorCode.NONE
    for how in ("clean stop", "kill"):
        broker.stop(20) if how == "clean stop" else broker.kill()
        began = time.monotonic()
        broker.start()
        took_s = time.monotonic() - began - queued_s(str(broker.pid))
        with Wire(broker.address) as wire:
            ends = [end_offset(wire, "t", at) for at in range(0, PARTITIONS, 5)]
        assert ends == [1, 0] * (PARTITIONS // 10)
        record_property(f"seconds after a {how}", round(took_s, 2))
        with capsys.disabled():  # print the time even if the test passes
            print(f"\n{PARTITIONS} partitions: {took_s:.2f} s after a {how}")  # noqa: T201
        assert took_s < RESTART_S
    broker.stop(20)


# --- oncelog.flush.on.ack


@pytest.mark.parametrize("client", [Confluent(), Aiokafka()], ids=lambda c: c.name)
def test_acknowledged_transactions_survive_a_kill_with_flush_on_ack(
    tmp_path: Path, client: Client
) -> None:
    """Acknowledged records, transactions and committed offsets survive kill -9."""
    settings = {"oncelog.flush.on.ack": "true", "log.flush.offset.checkpoint.interval.ms": "50"}
    broker = Oncelog(tmp_path, merged(QUICK, settings))
    broker.start()
    with Wire(broker.address) as wire:
        create(wire, "t")
    producer = client.producer(broker.address, transactional_id="t")
    producer.init_transactions()
    sent: list[bytes] = []
    for number in range(6):
        producer.begin()
        some = [b"%d-%d" % (number, at) for at in range(3)]
        producer.send("t", [Record(value, partition=0) for value in some])
        if number % 3 == 2:
            producer.abort()
        else:
            producer.commit()
            sent += some
    consumer = client.consumer(broker.address, "t", group="g", read_committed=True)
    found = read(consumer, len(sent))
    assert [record.value for record in found] == sent
    consumer.commit({0: found[3].offset})
    consumer.close()
    broker.kill()
    broker.start()
    producer.begin()
    producer.send("t", [Record(b"after", partition=0)])
    producer.commit()
    sent.append(b"after")
    with Wire(broker.address) as wire:
        assert values(wire, "t") == sent
        assert last_stable_offset(wire, "t") == end_offset(wire, "t")
    producer.close()
    again = client.consumer(broker.address, "t", group="g", read_committed=True)
    assert [record.value for record in read(again, len(sent) - 3)] == sent[3:]
    again.close()
    broker.stop()
