"""A partition with an unusable log. The topic exists, and only this partition has an error in the
responses. On oncelog the log is damaged. On Apache Kafka the log directory is missing at the
start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from oncelog_client import Admin, Consumer, ConsumerRecord, KafkaError, Producer, TopicPartition
from oncelog_client.cli import oncelog
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_protocol.records.batch import build_batch
from tests.harness.broker import Oncelog
from tests.harness.committing import commit_offsets
from tests.harness.driving import create, damage, fetch, list_offset
from tests.harness.kafka.compared import run_ours
from tests.harness.kafka.driver import JavaDriver
from tests.harness.kafka.kafka import Kafka
from tests.harness.waiting import wait_until
from tests.harness.watch import Watch
from tests.harness.writing import produce, records

TOPIC = "purchases"
PARTITIONS = 4
RECORDS = 3
DEADLINE_MS = 1_500
# Half of the default of `--timeout`.
LEADER_TIMEOUT_S = 15.0
WAIT_MS = 20_000
REFUSED_BY_KAFKA = {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}
NO_LEADER = ErrorCode.LEADER_NOT_AVAILABLE


@dataclass(frozen=True, slots=True)
class Halved:
    """A broker that serves partition `sound` of the topic and does not serve partition
    `offline`."""

    name: str
    address: str
    sound: int
    offline: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(TOPIC, self.offline)


def is_led(wire: Wire, partition: int) -> bool:
    return list_offset(wire, TOPIC, -1, partition)[0] == ErrorCode.NONE


def is_shown_with(wire: Wire, partition: int, code: ErrorCode) -> bool:
    return bool(metadata(wire, 12)[partition].error_code == code)


def fill(address: str) -> None:
    with Wire(address) as wire:
        create(wire, TOPIC, partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            wait_until(partial(is_led, wire, partition), f"partition {partition} is led")
            for _ in range(RECORDS):
                batch = build_batch(records(1, b"v" * 400))
                assert produce(wire, TOPIC, batch, partition=partition).error_code == ErrorCode.NONE


@pytest.fixture(scope="module", params=["oncelog", "kafka"])
def halved(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Halved]:
    folder = tmp_path_factory.mktemp("halved")
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
        yield from halved_kafka(folder)
        return
    broker = Oncelog(folder, QUICK)
    with broker:
        fill(broker.address)
    damage(broker.data / f"{TOPIC}-1" / f"{0:020}.log", 16)  # 16: the magic byte
    with broker:
        yield Halved(request.param, broker.address, sound=0, offline=1)


def halved_kafka(folder: Path) -> Iterator[Halved]:
    """Kafka with two log directories. At the second start, a file replaces the second directory."""
    second = folder / "second"
    kafka = Kafka(folder / "kafka", {"log.dirs": f"{folder / 'kafka' / 'data'},{second}"})
    with kafka:
        fill(kafka.address)
    offline = min(int(path.name.rsplit("-", 1)[1]) for path in second.glob(f"{TOPIC}-*"))
    sound = min(int(path.name.rsplit("-", 1)[1]) for path in kafka.data.glob(f"{TOPIC}-*"))
    second.rename(folder / "gone")
    second.write_text("not a directory")
    with kafka:
        with Wire(kafka.address) as wire:
            for partition, code in ((sound, ErrorCode.NONE), (offline, NO_LEADER)):
                is_shown = partial(is_shown_with, wire, partition, code)
                wait_until(is_shown, f"partition {partition} is shown with {code.name}")
        yield Halved("kafka", kafka.address, sound, offline)


def metadata(wire: Wire, version: int) -> dict[int, Any]:
    """Return the partitions of the topic in Metadata."""
    request = MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)
    (topic,) = wire.call(request, version).topics
    assert topic.error_code == ErrorCode.NONE
    return {partition.partition_index: partition for partition in topic.partitions}


@pytest.mark.parametrize("version", [1, 12])
def test_metadata_shows_an_offline_partition_without_a_leader(halved: Halved, version: int) -> None:
    with Wire(halved.address) as wire:
        partitions = metadata(wire, version)
    assert len(partitions) == PARTITIONS
    offline, sound = partitions[halved.offline], partitions[halved.sound]
    assert (offline.error_code, offline.leader_id) == (NO_LEADER, -1)
    assert (sound.error_code, sound.leader_id) == (ErrorCode.NONE, 1)
    assert offline.replica_nodes == [1]
    if version >= 5:
        assert (offline.offline_replicas, sound.offline_replicas) == ([1], [])


def test_requests_for_an_offline_partition_are_refused(halved: Halved) -> None:
    """A client with stale metadata sends these requests. Every expected error code makes the client
    refresh its metadata. Kafka's code depends on which is faster, its controller or its log
    manager."""
    with Wire(halved.address) as wire:
        delete = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(halved.offline, 1)])
        deleted = wire.call(DeleteRecordsRequest([delete], 10_000)).topics[0].partitions[0]
        batch = build_batch(records(1, b"v"))
        codes = {
            "Produce": produce(wire, TOPIC, batch, partition=halved.offline).error_code,
            "Fetch": fetch(wire, TOPIC, partition=halved.offline).error_code,
            "ListOffsets": list_offset(wire, TOPIC, -1, halved.offline)[0],
            "DeleteRecords": deleted.error_code,
        }
        found = {name: ErrorCode(code) for name, code in codes.items()}
        if halved.name == "oncelog":
            assert found == dict.fromkeys(codes, ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            assert {*found.values()} <= REFUSED_BY_KAFKA, found
        assert fetch(wire, TOPIC, partition=halved.sound).error_code == ErrorCode.NONE


async def sent(halved: Halved) -> None:
    async with Producer(
        halved.address,
        delivery_timeout_ms=DEADLINE_MS,
        request_timeout_ms=1_000,
        linger_ms=0,
    ) as producer:
        await (await producer.send(TOPIC, b"v", partition=halved.offline))


async def committed(halved: Halved) -> None:
    async with Producer(
        halved.address, transactional_id="shop", max_block_ms=DEADLINE_MS
    ) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(TOPIC, b"v", partition=halved.offline)


async def asked(halved: Halved, ask: Callable[[Consumer], Awaitable[object]]) -> None:
    consumer = Consumer(halved.address, default_api_timeout_ms=DEADLINE_MS)
    async with consumer:
        await consumer.assign([halved.place])
        await ask(consumer)


async def listed(halved: Halved, ask: Callable[[Admin], Awaitable[object]]) -> None:
    async with Admin(halved.address, default_api_timeout_ms=DEADLINE_MS) as admin:
        await ask(admin)


CALLS: dict[str, Callable[[Halved], Awaitable[None]]] = {
    "send": sent,
    "commit": committed,
    "position": lambda of: asked(of, lambda consumer: consumer.position(of.place)),
    "end_offsets": lambda of: asked(of, lambda consumer: consumer.end_offsets([of.place])),
    "seek_to_end": lambda of: asked(of, lambda consumer: consumer.seek_to_end(of.place)),
    "lag": lambda of: asked(of, lambda consumer: consumer.lag(of.place)),
    "list_offsets": lambda of: listed(of, lambda admin: admin.list_offsets({of.place: "latest"})),
    "delete_records": lambda of: listed(of, lambda admin: admin.delete_records({of.place: 1})),
    "describe_producers": lambda of: listed(of, lambda admin: admin.describe_producers([of.place])),
}


async def refusal(halved: Halved, name: str) -> tuple[str, float]:
    """Return the error of a call, and its duration in seconds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(KafkaError) as refused:
        await CALLS[name](halved)
    return str(refused.value), loop.time() - began


async def test_our_client_names_the_partition_and_the_reason_at_its_deadline(
    halved: Halved,
) -> None:
    """At its deadline, the error of each call names the partition and its state. "not delivered in
    time" or UNKNOWN_TOPIC_OR_PARTITION would not explain the failure."""
    # In Kafka the missing directory may also have the log of the group coordinator.
    names = [name for name in CALLS if halved.name == "oncelog" or name != "commit"]
    refusals = await asyncio.gather(*(refusal(halved, name) for name in names))
    for name, (said, took_s) in zip(names, refusals, strict=True):
        # The deadline of the call, plus the time to connect and to close on a busy computer.
        assert took_s < DEADLINE_MS / 1000 + 5, name
        assert str(halved.place) in said, (name, said)
        assert "LEADER_NOT_AVAILABLE" in said, (name, said)
        assert "offline on broker 1" in said, (name, said)
        assert "UNKNOWN_TOPIC" not in said, (name, said)


async def test_records_without_a_key_avoid_the_offline_partition(halved: Halved) -> None:
    """Each producer chooses its first partition at random."""
    for _ in range(12):
        async with Producer(
            halved.address, delivery_timeout_ms=10_000, request_timeout_ms=10_000, linger_ms=0
        ) as producer:
            written = await producer.send_and_wait(TOPIC, b"v" * 400)
        assert written.partition != halved.offline


def test_kafka_consumer_groups_describes_the_offline_partition_without_its_end(
    halved: Halved, java_driver: JavaDriver
) -> None:
    """ConsumerGroupCommand.describePartitions; our tool prints the same lines."""
    consumer = ConfluentConsumer({"bootstrap.servers": halved.address, "group.id": "halves"})
    offsets = [ConfluentPartition(TOPIC, at, 1) for at in (halved.sound, halved.offline)]
    commit_offsets(consumer, offsets)
    # Other tests write to the sound partition.
    _, end = consumer.get_watermark_offsets(
        ConfluentPartition(TOPIC, halved.sound), LEADER_TIMEOUT_S
    )
    consumer.close()
    arguments = ("--bootstrap-server", halved.address, "--describe", "--group", "halves")
    theirs = java_driver.tool("consumer-groups", *arguments)
    began_s = time.monotonic()
    ours = run_ours("kafka-consumer-groups", *arguments)
    assert time.monotonic() - began_s < LEADER_TIMEOUT_S
    lines = {line[2]: line[3:6] for line in map(str.split, theirs.lines) if line[:1] == ["halves"]}
    assert lines == {
        str(halved.sound): ["1", str(end), str(end - 1)],
        str(halved.offline): ["1", "-", "-"],
    }
    printed = [line.split() for line in ours.lines if line]
    assert printed == [line.split() for line in theirs.lines if line]


@pytest.mark.parametrize(
    "flags",
    [
        ["--from-beginning"],
        ["-o", "start"],
        ["-o", "+1"],
        ["-o", "-2"],
        ["-o", "@-1h"],
        ["-o", "0"],
    ],
)
def test_a_read_without_an_end_returns_the_records_of_the_available_partitions(
    halved: Halved, flags: list[str]
) -> None:
    """As Kafka's console consumer. A note names the offline partition."""
    count = RECORDS + 1  # more than one partition has
    call = ["consume", TOPIC, *flags, "-n", f"{count}", "--bootstrap-server", halved.address]
    watch = Watch()
    result = CliRunner().invoke(oncelog, [*call, "--timeout-ms", f"{WAIT_MS}"])
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == count
    assert watch.passed_s < WAIT_MS / 1000
    assert f"{halved.place}: no broker leads it: offline on broker" in result.stderr


@pytest.mark.parametrize("seek", [Consumer.seek_to_beginning, Consumer.reset_to_last_committed])
async def test_an_offline_partition_does_not_keep_the_consumer_from_the_others(
    halved: Halved, seek: Callable[[Consumer], Awaitable[None]]
) -> None:
    consumer = Consumer(halved.address, auto_offset_reset="earliest")
    async with consumer, asyncio.timeout(WAIT_MS / 1000):
        await consumer.assign(TopicPartition(TOPIC, number) for number in range(PARTITIONS))
        await seek(consumer)
        found = [record async for record in _first(consumer, RECORDS + 2)]
    assert halved.offline not in {record.partition for record in found}


async def _first(consumer: Consumer, count: int) -> AsyncIterator[ConsumerRecord]:
    """Yield the first records that the consumer polls."""
    while count > 0:
        for record in await consumer.poll(WAIT_MS, max_records=count):
            count -= 1
            yield record


@pytest.mark.parametrize("flags", [["-e"], ["-o", "-2", "-e"], ["-o", "@-1h:end"]])
def test_a_bounded_read_ends_in_time_and_names_the_offline_partition(
    halved: Halved, flags: list[str]
) -> None:
    call = ["consume", TOPIC, *flags, "--bootstrap-server", halved.address]
    timeout_s = DEADLINE_MS / 1000
    watch = Watch()
    result = CliRunner().invoke(oncelog, [*call, "--give-up-after", f"{timeout_s}"])
    assert result.exit_code == 1, result.output
    assert watch.passed_s < 2 * timeout_s
    assert str(halved.place) in result.stderr
    assert "no broker leads it: offline on broker" in result.stderr


def test_a_bounded_read_of_an_available_partition_returns_all_its_records(halved: Halved) -> None:
    call = ["consume", TOPIC, "-e", "-p", f"{halved.sound}", "--bootstrap-server", halved.address]
    result = CliRunner().invoke(oncelog, call)
    assert result.exit_code == 0, result.output
    # Other tests may have written records.
    read = len(result.stdout.splitlines())
    assert read >= RECORDS
    assert f"{read} records" in result.stderr
