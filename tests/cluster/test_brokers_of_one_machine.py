"""`oncelog serve --brokers` runs several brokers of one machine as one cluster, without etcd."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog_server.processes.broker_processes import BrokerProcesses
from tests.client.cli.conftest import CommandLine
from tests.cluster.machine import COUNT, Machine, exit_all
from tests.cluster.reading import CALL_S, metadata_of, values
from tests.harness.processes import is_alive
from tests.harness.waiting import wait_until

TOPIC = "orders"
PARTITIONS = 6
WARNING = "of this data directory do"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path) as machine:
        yield machine


def write(machine: Machine, first: int, *, transactional: bool = False) -> list[str]:
    """Write 60 records, one to each partition in turn. Return them when all are acknowledged."""
    settings = {"bootstrap.servers": machine.addresses, "acks": "all", "enable.idempotence": True}
    if transactional:
        settings["transactional.id"] = "writer"
    producer = Producer(settings)
    failures: list[str] = []
    written = [f"{number:06}" for number in range(first, first + 60)]
    if transactional:
        producer.init_transactions(CALL_S)
        producer.begin_transaction()
    for number, value in enumerate(written):
        producer.produce(
            TOPIC,
            value,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: failures.append(str(error)) if error else None,
        )
    if transactional:
        producer.commit_transaction(CALL_S)
    assert producer.flush(CALL_S) == 0
    assert not failures
    return written


def admin_of(machine: Machine) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": machine.addresses})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(CALL_S)
    machine.settled(admin, TOPIC)  # each broker learns of the topic later than the controller
    return admin


def test_the_first_topic_is_spread_over_all_brokers_and_written_in_transactions(
    machine: Machine,
) -> None:
    admin = admin_of(machine)
    described = admin.describe_cluster().result(CALL_S)
    assert [node.port for node in sorted(described.nodes, key=lambda node: node.id)] == [
        machine.port + number for number in range(COUNT)
    ]
    rows = metadata_of(admin, TOPIC).topics[TOPIC].partitions.values()
    assert sorted(row.leader for row in rows) == [1, 1, 2, 2, 3, 3]
    assert all(len(row.replicas) == 1 for row in rows)
    wrote = write(machine, 0, transactional=True)
    assert values(machine.addresses, TOPIC, PARTITIONS) == wrote


@pytest.mark.parametrize("killed", [1, 2], ids=["the first", "another"])
def test_a_broker_that_dies_is_started_again_with_all_its_records(
    machine: Machine, killed: int
) -> None:
    admin = admin_of(machine)
    wrote = write(machine, 0)
    before = machine.pids()
    os.kill(before[killed], signal.SIGKILL)
    wait_until(
        lambda: machine.pids().get(killed, before[killed]) != before[killed], "a new process"
    )
    machine.settled(admin, TOPIC)
    wrote += write(machine, 60, transactional=True)
    assert values(machine.addresses, TOPIC, PARTITIONS) == wrote
    after = machine.pids()
    assert {id_: after[id_] for id_ in after if id_ != killed} == {
        id_: before[id_] for id_ in before if id_ != killed
    }


def test_all_brokers_stop_cleanly_and_start_with_what_they_had(machine: Machine) -> None:
    admin_of(machine)
    wrote = write(machine, 0)
    pids = machine.pids()
    assert machine.stop() == 0
    assert not any(map(is_alive, pids.values()))
    assert machine.log.read_text().count('"clean":true,"event":"broker stopped"') == COUNT
    machine.start()
    machine.settled(AdminClient({"bootstrap.servers": machine.addresses}), TOPIC)
    assert values(machine.addresses, TOPIC, PARTITIONS) == wrote


def test_a_start_with_fewer_brokers_warns_of_what_is_missing(machine: Machine) -> None:
    """The missing records are back when all brokers run. After a drain, fewer brokers have all
    records."""
    command_line = CommandLine(machine.addresses)
    admin = admin_of(machine)
    wrote = write(machine, 0)
    machine.stop()
    assert WARNING not in machine.log.read_text()
    machine.run(COUNT - 1)
    machine.start()
    (warning,) = (line for line in machine.log.read_text().splitlines() if WARNING in line)
    assert "broker 3 of this data directory does not run: 2 partitions cannot be read" in warning
    assert f"{TOPIC}-" in warning
    assert f"start with --brokers {COUNT}" in warning
    machine.stop()
    machine.log.write_text("")

    machine.run(COUNT)
    machine.start()
    machine.settled(admin, TOPIC)
    assert values(machine.addresses, TOPIC, PARTITIONS) == wrote
    command_line.text("cluster", "drain", "3", "--execute")
    machine.stop()
    assert WARNING not in machine.log.read_text()
    machine.run(COUNT - 1)
    machine.start()
    (warning,) = (line for line in machine.log.read_text().splitlines() if WARNING in line)
    assert "has no partition. To unregister: oncelog cluster unregister 3" in warning
    CommandLine(machine.addresses).text("cluster", "unregister", "3")
    machine.stop()
    machine.log.write_text("")
    machine.start()
    assert WARNING not in machine.log.read_text()
    assert values(machine.addresses, TOPIC, PARTITIONS) == wrote


def test_the_brokers_end_with_the_process_that_started_them(machine: Machine) -> None:
    pids = machine.pids()
    assert sorted(pids) == [1, 2, 3]
    machine.kill()
    exit_all(pids)
    assert machine.log.read_text().count('"clean":true,"event":"broker stopped"') == COUNT


def test_a_broker_that_cannot_start_stops_all_of_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with socket.create_server((machine.host, machine.port + 1)):
        process = machine.spawn()
        assert process.wait(CALL_S) == 1
    assert f"{machine.port + 1}" in machine.log.read_text()


def test_all_brokers_stop_if_a_process_cannot_be_started() -> None:
    """The first broker is a process that serves nothing, the second one has no program."""
    waits = [sys.executable, "-c", "import signal; signal.pause()"]

    def command(number: int, descriptor: int) -> list[str]:
        return waits if number == 1 else ["/nowhere/oncelog"]

    with pytest.raises(FileNotFoundError, match="nowhere"):
        asyncio.run(BrokerProcesses(2, command).run())
