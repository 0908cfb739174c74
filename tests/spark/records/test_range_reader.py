"""A range of a partition becomes Arrow batches with exactly the records that a reader may see."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
import pytest_asyncio

from oncelog.testing.ports import free_ports
from oncelog_client import Admin, NewTopic, Producer, TopicPartition
from oncelog_client.config import ConsumerSettings, consumer_config
from oncelog_client.errors import KafkaError, RetriableError
from oncelog_client.spark.records.arrow_decode import COLUMN_TYPES
from oncelog_client.spark.source import range_reader
from oncelog_client.spark.source.range_reader import DataLost, ReadSettings, read_range
from tests.harness.broker import Oncelog
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.kafka.kafka import Kafka

ALL = list(COLUMN_TYPES)
TIMEOUT_MS = 20_000


@pytest.fixture(scope="module", params=["oncelog", "kafka"])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if request.param == "kafka":
        kafka: Kafka = request.getfixturevalue("kafka")
        yield kafka.address
        return
    with Oncelog(tmp_path_factory.mktemp("oncelog")) as running:
        yield running.address


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    """A broker that can be killed."""
    with Oncelog(tmp_path_factory.mktemp("mortal")) as running:
        yield running


async def new_partition(address: str, **configs: str) -> TopicPartition:
    """Create a topic, and return its partition."""
    name = f"r-{uuid.uuid4().hex[:12]}"
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(name, 1, 1, configs=configs)])
    return TopicPartition(name, 0)


@pytest_asyncio.fixture
async def partition(address: str) -> AsyncIterator[TopicPartition]:
    yield await new_partition(address)


def settings(address: str, poll_timeout_ms: int = TIMEOUT_MS, **more: object) -> ReadSettings:
    given = cast(ConsumerSettings, {"isolation_level": "read_committed", **more})
    return ReadSettings(consumer=consumer_config(address, given), poll_timeout_ms=poll_timeout_ms)


async def write(address: str, partition: TopicPartition, values: Iterable[bytes]) -> None:
    async with Producer(address, batch_size=1_000) as producer:
        for value in values:
            await producer.send(
                partition.topic, value, b"k", partition=0, timestamp_ms=5, headers=[("h", b"1")]
            )


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%020d" % number for number in range(start, end)]


def rows(batches: Iterable[pa.RecordBatch], column: str = "offset") -> list[object]:
    return [row for batch in batches for row in batch.column(column).to_pylist()]


async def test_a_range_has_exactly_its_records_with_all_columns(
    address: str, partition: TopicPartition
) -> None:
    await write(address, partition, numbers(0, 1000))
    read = list(read_range(settings(address), partition, 5, 990, ALL))
    assert rows(read) == list(range(5, 990))
    assert rows(read, "value") == numbers(5, 990)
    last = read[-1].slice(read[-1].num_rows - 1).to_pylist()[0]
    assert last.pop("timestamp").timestamp() == 0.005
    assert last == {
        "key": b"k",
        "value": b"%020d" % 989,
        "topic": partition.topic,
        "partition": 0,
        "offset": 989,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}],
    }


async def test_adjacent_ranges_together_have_all_records(
    address: str, partition: TopicPartition
) -> None:
    await write(address, partition, numbers(0, 500))
    bounds = [0, 1, 2, 77, 78, 300, 301, 499, 500]
    found = [
        row
        for start, end in pairwise(bounds)
        for row in rows(read_range(settings(address), partition, start, end, ["offset"]))
    ]
    assert found == list(range(500))
    assert rows(read_range(settings(address), partition, 7, 7, ["offset"])) == []


async def test_markers_and_aborted_records_are_gaps(
    address: str, partition: TopicPartition
) -> None:
    visible: list[int] = []
    everything: list[int] = []
    offset = 0
    async with Producer(address, transactional_id=partition.topic) as producer:
        await producer.init_transactions()
        for number in range(6):
            await producer.begin_transaction()
            for _ in range(100):
                await producer.send(partition.topic, b"v" * 50, partition=0)
            offsets = range(offset, offset + 100)
            everything += offsets
            offset += 101
            await producer.flush()
            if number % 2:
                await producer.commit_transaction()
                visible += offsets
            else:
                await producer.abort_transaction()
    for start, end in ((0, offset), (50, 301), (101, 202), (202, 303), (302, 303), (505, 506)):
        for fetch_bytes in (1, 3_000, 1 << 20):
            committed = settings(address, max_partition_fetch_bytes=fetch_bytes)
            found = rows(read_range(committed, partition, start, end, ["offset"]))
            assert found == [offset for offset in visible if start <= offset < end]
    uncommitted = settings(address, isolation_level="read_uncommitted")
    found = rows(read_range(uncommitted, partition, 0, offset, ["offset"]))
    assert found == everything


async def test_a_range_may_take_many_small_fetches(address: str, partition: TopicPartition) -> None:
    await write(address, partition, numbers(0, 2_000))
    small = settings(address, max_partition_fetch_bytes=1)
    # Keep all batches until the end. The reader reuses the buffer of responses, which must not
    # change earlier batches.
    batches = list(read_range(small, partition, 0, 2_000, ["value"]))
    assert len(batches) > 50
    assert rows(batches, "value") == numbers(0, 2_000)


async def test_the_error_for_a_log_that_begins_later_has_both_offsets(
    address: str, partition: TopicPartition
) -> None:
    await write(address, partition, numbers(0, 100))
    async with Admin(address) as admin:
        await admin.delete_records({partition: 60})
    name = f"{partition.topic}-0"
    with pytest.raises(DataLost, match=f"{name}: offset 20 is not there, the log begins at 60"):
        rows(read_range(settings(address), partition, 20, 80, ["offset"]))
    assert rows(read_range(settings(address), partition, 60, 80, ["offset"])) == [*range(60, 80)]


async def test_an_offset_that_the_log_never_had_is_reported(
    address: str, partition: TopicPartition
) -> None:
    await write(address, partition, numbers(0, 10))
    with pytest.raises(DataLost) as caught:
        rows(read_range(settings(address), partition, 4_000, 4_001, ["offset"]))
    assert (caught.value.wanted, caught.value.log_start_offset) == (4_000, 0)


async def test_a_range_beyond_the_end_of_the_log_fails_at_the_timeout(
    address: str, partition: TopicPartition
) -> None:
    await write(address, partition, numbers(0, 10))
    impatient = settings(address, poll_timeout_ms=1_500, fetch_max_wait_ms=50)
    with pytest.raises(RetriableError, match="no record at or after offset 10 came within 1500 ms"):
        rows(read_range(impatient, partition, 0, 11, ["offset"]))


async def test_a_missing_topic_or_broker_is_an_error_at_the_timeout(address: str) -> None:
    with pytest.raises(KafkaError, match="no-such-topic"):
        rows(read_range(settings(address, 500), TopicPartition("no-such-topic", 0), 0, 1, ALL))
    (port,) = free_ports(1)
    with pytest.raises(RetriableError, match=r"kafkaConsumer\.pollTimeoutMs.*no broker responds"):
        rows(read_range(settings(f"127.0.0.1:{port}", 500), TopicPartition("t", 0), 0, 1, ALL))


async def test_the_next_range_uses_the_same_connection(
    address: str, partition: TopicPartition
) -> None:
    await write(address, partition, numbers(0, 100))
    mine = settings(address, client_id=partition.topic)

    def connections() -> list[object]:
        return [socket for key, socket in range_reader._idle.items() if key[1] == mine.consumer]

    rows(read_range(mine, partition, 0, 50, ["offset"]))
    (first,) = connections()
    rows(read_range(mine, partition, 50, 100, ["offset"]))
    assert connections() == [first]
    # A reader that is closed halfway has a request in flight. No other reader may get its
    # connection.
    half = read_range(settings(address, client_id="half", max_partition_fetch_bytes=1),
                      partition, 0, 100, ["offset"])  # fmt: skip
    next(half)
    assert isinstance(half, Generator)
    half.close()
    assert "half" not in {key[1].client_id for key in range_reader._idle}


async def test_a_small_range_of_a_large_log_fetches_few_bytes(
    address: str, partition: TopicPartition
) -> None:
    async with Producer(address) as producer:
        for _ in range(3_000):
            await producer.send(partition.topic, bytes(1_000), partition=0)
    largest = []
    for start, end in ((0, 3_000), (1_000, 1_010)):
        mine = settings(address, client_id=f"{partition.topic}-{start}")
        assert len(rows(read_range(mine, partition, start, end, ["offset"]))) == end - start
        (socket,) = [
            connection for key, connection in range_reader._idle.items() if key[1] == mine.consumer
        ]
        largest.append(len(socket._buffer))
    assert largest[0] > 1_000_000
    assert largest[1] < 200_000


async def test_the_reader_waits_for_a_restarted_broker(broker: Oncelog) -> None:
    partition = await new_partition(broker.address)
    await write(broker.address, partition, numbers(0, 1_000))
    small = settings(broker.address, max_partition_fetch_bytes=1)
    batches = read_range(small, partition, 0, 1_000, ["offset"])
    found = rows([next(batches)])
    broker.kill()
    broker.start()
    assert found + rows(batches) == list(range(1_000))


async def test_the_reader_waits_for_the_next_leader_of_its_partition(
    tmp_path: Path, real_etcd: Etcd
) -> None:
    """At first, the metadata of the other brokers names the dead leader. The reader does not wait
    for that leader until its own timeout of a minute."""
    prefix = {"oncelog.etcd.prefix": f"/{tmp_path.name}/"}
    with Cluster(tmp_path, real_etcd, settings=prefix) as cluster:
        partition = TopicPartition("r", 0)
        async with Admin(cluster.address) as admin:
            await admin.create_topics([NewTopic("r", 1, 3)])
        await write(cluster.address, partition, numbers(0, 1_000))
        small = settings(cluster.address, 60_000, max_partition_fetch_bytes=1)
        batches = read_range(small, partition, 0, 1_000, ["offset"])
        found = rows([next(batches)])
        cluster.brokers[cluster.leader("r", 0)].kill()
        killed_s = time.monotonic()
        assert found + rows(batches) == list(range(1_000))
        assert time.monotonic() - killed_s < 40


async def test_a_connection_that_broke_between_two_ranges_causes_no_delay(broker: Oncelog) -> None:
    partition = await new_partition(broker.address)
    await write(broker.address, partition, numbers(0, 10))
    hour_ms = 3_600_000
    slow = settings(broker.address, retry_backoff_ms=hour_ms, retry_backoff_max_ms=hour_ms)
    assert rows(read_range(slow, partition, 3, 5, ["offset"])) == [3, 4]
    broker.kill()
    broker.start()
    assert rows(read_range(slow, partition, 5, 7, ["offset"])) == [5, 6]


async def test_the_error_for_a_corrupt_batch_names_its_topic_and_offset(broker: Oncelog) -> None:
    partition = await new_partition(broker.address)
    await write(broker.address, partition, [b"x" * 100])
    (log,) = (broker.data / f"{partition.topic}-0").glob("*.log")
    with log.open("r+b") as file:
        file.seek(90)
        file.write(b"y")
    with pytest.raises(KafkaError, match=f"CORRUPT_MESSAGE: .*{partition.topic}.* at 0: the CRC"):
        rows(read_range(settings(broker.address), partition, 0, 1, ["offset"]))
    unchecked = settings(broker.address, check_crcs=False)
    assert rows(read_range(unchecked, partition, 0, 1, ["offset"])) == [0]
