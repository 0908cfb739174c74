"""Etcd is emptied, or restored from an older copy: no broker serves with it, and the metadata comes
back from an export and the data directories, with everything that was acknowledged."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess, run

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog_server.cluster import records
from oncelog_server.cluster.records import PartitionRecord, ProducerIdsRecord, TopicRecord
from oncelog_server.salvage.exports import read_export
from tests.cluster.reading import CALL_S, values
from tests.harness.broker import BrokerFailed, Oncelog
from tests.harness.cluster import Cluster
from tests.harness.committing import commit_offsets
from tests.harness.etcd import Etcd
from tests.harness.waiting import wait_until

TOPIC, LATER, GROUP = "orders", "later", "readers"
PARTITIONS = 3
DEADLINE_S = 60.0
# No broker can lead after this time, because their sessions end in 2 s.
REFUSED_S = 4.0
PREFIX = "/lost/"
# The command line as an operator runs it, and one with short imports and recoveries.
WHOLE, SHORT = "oncelog_client.cli", "tests.cluster.short_recovery"


@pytest.fixture
def etcd(etcd_program: str, tmp_path: Path) -> Iterator[Etcd]:
    """An etcd that the test may stop and empty."""
    with Etcd(tmp_path / "etcd") as etcd:
        yield etcd


@pytest.fixture
def cluster(tmp_path: Path, etcd: Etcd) -> Iterator[Cluster]:
    with Cluster(tmp_path, etcd, settings={"oncelog.etcd.prefix": PREFIX}) as cluster:
        yield cluster


class Work:
    """Transactions, offsets of a group, and a transaction that stays open."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.wrote: list[str] = []
        self.create(TOPIC, {"retention.ms": "-1", "max.message.bytes": "2000000"})
        self._open = self._producer("left-open", timeout_ms=5_000)
        self._open.begin_transaction()
        self._open.produce(TOPIC, "never committed", partition=0)
        self._open.flush(CALL_S)
        self.write(TOPIC)
        consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP})
        commit_offsets(consumer, [TopicPartition(TOPIC, 0, 7)])
        consumer.close()

    def create(self, topic: str, settings: dict[str, str] | None = None) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        new = NewTopic(topic, PARTITIONS, 3, config=settings or {})
        admin.create_topics([new])[topic].result(CALL_S)

    def _producer(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Producer:
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        producer = Producer({"bootstrap.servers": self.address, **settings})
        producer.init_transactions(DEADLINE_S)
        return producer

    def write(self, topic: str) -> None:
        """Commit a transaction with records in all partitions."""
        producer = self._producer("writer")
        producer.begin_transaction()
        for number in range(30):
            value = f"{len(self.wrote):06}"
            producer.produce(topic, value, partition=number % PARTITIONS)
            self.wrote.append(value)
        producer.commit_transaction(DEADLINE_S)

    def is_all_there(self, *topics: str) -> None:
        """Assert that all committed records and the offset are there, and that the open transaction
        ends: without that, no record after it could be read."""
        self.write(TOPIC)

        def read() -> list[str]:
            found: list[str] = []
            for topic in (TOPIC, *topics):
                found += values(self.address, topic, PARTITIONS)
            return sorted(found)

        wait_until(lambda: len(read()) >= len(self.wrote), "all records", DEADLINE_S)
        assert read() == self.wrote
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": GROUP})
        (place,) = consumer.committed([TopicPartition(TOPIC, 0)], CALL_S)
        consumer.close()
        assert place.offset == 7
        # The open transaction was aborted, so its producer cannot commit it.
        with pytest.raises(KafkaException):
            self._open.commit_transaction(CALL_S)


class Numbers:
    """The ids and epochs in an export."""

    def __init__(self, file: Path) -> None:
        self.topics: dict[str, str] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.epochs: dict[str, int] = {}
        self.next_producer_id = 0
        for entry in read_export(file).snapshot.entries:
            if entry.key.startswith(records.TOPICS):
                topic = records.decode(TopicRecord, entry.value)
                name = entry.key.removeprefix(records.TOPICS)
                self.topics[name], self.settings[name] = topic.id, topic.settings
            elif entry.key.startswith(records.PARTITIONS):
                partition = records.decode(PartitionRecord, entry.value)
                self.epochs[entry.key] = partition.leader_epoch
            elif entry.key == records.PRODUCER_IDS:
                ids = records.decode(ProducerIdsRecord, entry.value)
                self.next_producer_id = ids.next_producer_id

    def continues_from(self, before: Numbers) -> None:
        assert self.topics.items() >= before.topics.items()
        assert self.next_producer_id >= before.next_producer_id
        assert self.epochs.keys() >= before.epochs.keys()
        for key, epoch in before.epochs.items():
            assert self.epochs[key] >= epoch, key


def command(
    etcd: Etcd, verb: str, *arguments: object, program: str = SHORT
) -> CompletedProcess[str]:
    sets = (f"oncelog.etcd.endpoints={','.join(etcd.urls)}", f"oncelog.etcd.prefix={PREFIX}")
    return run(
        [
            *(sys.executable, "-m", program, "cluster", verb, *map(str, arguments)),
            *(part for text in sets for part in ("--set", text)),
        ],
        capture_output=True,
        text=True,
        timeout=4 * CALL_S,
        check=False,
    )


def done(etcd: Etcd, verb: str, *arguments: object, program: str = SHORT) -> str:
    said = command(etcd, verb, *arguments, program=program)
    assert said.returncode == 0, said
    return said.stdout


def refused(etcd: Etcd, verb: str, *arguments: object) -> str:
    said = command(etcd, verb, *arguments)
    assert said.returncode == 1, said
    return said.stderr


def exported(etcd: Etcd, file: Path) -> Numbers:
    done(etcd, "export", file)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    return Numbers(file)


def replace(etcd: Etcd, source: Path | None) -> None:
    """Empty etcd, or restore it from a copy of its data."""
    (member,) = etcd.members
    member.kill()
    member.replace(source)
    etcd.start(member)


def directories(cluster: Cluster) -> list[Path]:
    return [broker.data for broker in cluster.brokers.values()]


def says(broker: Oncelog, text: str) -> bool:
    return text in broker.said()


def no_broker_starts(cluster: Cluster, reason: str) -> None:
    """Assert that the start of each broker fails. All try it at the same moment."""

    def fails(broker: Oncelog) -> None:
        with pytest.raises(BrokerFailed, match=reason):
            broker.start()

    with ThreadPoolExecutor(len(cluster.brokers)) as pool:
        assert len([*pool.map(fails, cluster.brokers.values())]) == len(cluster.brokers)


def test_b23_an_export_of_the_stopped_cluster_is_imported(
    cluster: Cluster, etcd: Etcd, tmp_path: Path
) -> None:
    work = Work(cluster.address)
    cluster.stop()
    before = exported(etcd, tmp_path / "export.txt")
    replace(etcd, None)
    no_broker_starts(cluster, "there is no metadata in etcd")
    planned = done(etcd, "import", tmp_path / "export.txt")
    assert "add --yes" in planned
    no_broker_starts(cluster, "there is no metadata in etcd")
    done(etcd, "import", tmp_path / "export.txt", "--yes")
    assert "has a cluster" in refused(etcd, "import", tmp_path / "export.txt", "--yes")
    cluster.start()
    work.is_all_there()
    after = exported(etcd, tmp_path / "after.txt")
    after.continues_from(before)
    assert after.settings == before.settings


def test_b23_an_older_export_is_completed_from_the_directories(
    cluster: Cluster, etcd: Etcd, tmp_path: Path
) -> None:
    work = Work(cluster.address)
    older = exported(etcd, tmp_path / "export.txt")
    work.create(LATER)
    work.write(LATER)
    before = exported(etcd, tmp_path / "before.txt")
    cluster.stop()
    replace(etcd, None)
    done(etcd, "import", tmp_path / "export.txt", "--yes")
    no_broker_starts(cluster, "that was restored, and .* has seen revision .*cluster recover")
    first, second, third = directories(cluster)
    assert "broker 3 is missing" in refused(etcd, "recover", first, second)
    # As an operator does on another computer.
    survey = run(
        [sys.executable, "-m", "oncelog_client.cli", "cluster", "survey", third, tmp_path / "3"],
        capture_output=True,
        check=False,
    )
    assert survey.returncode == 0, survey
    assert "--brokers" in refused(etcd, "recover", first, second, tmp_path / "3")
    said = done(etcd, "recover", first, second, tmp_path / "3", "--brokers", "1,2,3", "--yes")
    assert "topic later: its settings are lost" in said
    cluster.start()
    work.is_all_there(LATER)
    after = exported(etcd, tmp_path / "after.txt")
    after.continues_from(before)
    assert after.settings[TOPIC] == older.settings[TOPIC]


def test_b23_killed_brokers_are_recovered_without_an_export(
    cluster: Cluster, etcd: Etcd, tmp_path: Path
) -> None:
    work = Work(cluster.address)
    before = exported(etcd, tmp_path / "before.txt")
    for broker in cluster.brokers.values():
        broker.kill()
    replace(etcd, None)
    data = directories(cluster)
    assert "--brokers" in refused(etcd, "recover", *data)
    done(etcd, "recover", *data, "--brokers", "1,2,3", "--yes", program=WHOLE)
    cluster.start()
    work.is_all_there()
    exported(etcd, tmp_path / "after.txt").continues_from(before)


def test_b23_an_etcd_from_an_older_copy_is_refused_and_then_recovered(
    cluster: Cluster, etcd: Etcd, tmp_path: Path
) -> None:
    work = Work(cluster.address)
    (member,) = etcd.members
    member.stop()
    member.save(tmp_path / "copy")
    etcd.start(member)
    work.create(LATER)
    work.write(LATER)
    before = exported(etcd, tmp_path / "before.txt")
    cluster.stop()
    replace(etcd, tmp_path / "copy")
    no_broker_starts(cluster, "has seen revision")
    data = directories(cluster)

    def is_recovered() -> bool:
        # The copy has the registrations of the brokers, until their leases end.
        said = command(etcd, "recover", *data, "--brokers", "1,2,3", "--yes")
        assert said.returncode == 0 or "is registered" in said.stderr, said
        return said.returncode == 0

    wait_until(is_recovered, "the recovery", DEADLINE_S)
    cluster.start()
    work.is_all_there(LATER)
    exported(etcd, tmp_path / "after.txt").continues_from(before)


@pytest.mark.parametrize("source", ["empty", "older"])
def test_b23_running_brokers_suspend_themselves_and_lose_nothing(
    cluster: Cluster, etcd: Etcd, tmp_path: Path, source: str
) -> None:
    work = Work(cluster.address)
    copy = None
    if source == "older":
        (member,) = etcd.members
        member.stop()
        copy = tmp_path / "copy"
        member.save(copy)
        etcd.start(member)
    work.create(LATER)
    work.write(LATER)
    before = exported(etcd, tmp_path / "before.txt")
    replace(etcd, copy)
    for broker in cluster.brokers.values():
        found = partial(says, broker, "etcd has gone back from revision")
        wait_until(found, "the broker says what has happened", DEADLINE_S)
        assert says(broker, "oncelog cluster recover")
    producer = Producer({"bootstrap.servers": cluster.address})
    producer.produce(TOPIC, "lost")
    assert producer.flush(REFUSED_S) == 1, "a suspended broker has acknowledged a record"
    producer.purge()
    cluster.stop()
    data = directories(cluster)

    def is_recovered() -> bool:
        said = command(etcd, "recover", *data, "--brokers", "1,2,3", "--yes")
        assert said.returncode == 0 or "is registered" in said.stderr, said
        return said.returncode == 0

    wait_until(is_recovered, "the recovery", DEADLINE_S)
    cluster.start()
    work.is_all_there(LATER)
    exported(etcd, tmp_path / "after.txt").continues_from(before)
