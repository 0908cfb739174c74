"""`oncelog storage recover` on the data directory of several brokers of one machine brings the
partitions of all of them back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog_server.salvage import commands
from oncelog_server.salvage.changes import PlannedChanges
from tests.cluster.machine import Machine
from tests.cluster.reading import CALL_S, values
from tests.faults.folders import fingerprint
from tests.faults.recoveries import run

PARTITIONS = 6


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path) as machine:
        yield machine


def create(machine: Machine, topic: str, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": machine.addresses})
    admin.create_topics([NewTopic(topic, PARTITIONS, replicas)])[topic].result(CALL_S)


def write(machine: Machine, topic: str, first: int = 0) -> list[str]:
    """Write 30 records, the same number to each partition, and return them."""
    producer = Producer({"bootstrap.servers": machine.addresses, "enable.idempotence": True})
    written = [f"{number:06}" for number in range(first, first + 30)]
    for number, value in enumerate(written):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(CALL_S) == 0
    return written


def start(machine: Machine, *topics: str) -> None:
    machine.start()
    admin = AdminClient({"bootstrap.servers": machine.addresses})
    for topic in topics:
        machine.settled(admin, topic)


def recover(machine: Machine, *, is_planned_first: bool = True) -> str:
    """Show the plan, which changes nothing, and carry it out. Return the shown text."""
    output = ""
    if is_planned_first:
        before = fingerprint(machine.data)
        output = run("recover", "--data", str(machine.data), "--verbose").output
        assert fingerprint(machine.data) == before
    done = run("recover", "--data", str(machine.data), "--yes")
    assert done.exit_code == 0, done.output
    again = run("recover", "--data", str(machine.data))
    assert "Nothing to do" in again.output, again.output
    return output + done.output


def put_back(machine: Machine, backup: Path) -> None:
    """Restore the metadata of a backup, as docs/backup.md says."""
    for path in machine.data.glob("oncelog-metadata*"):
        path.unlink()
    for path in backup.iterdir():
        shutil.copy2(path, machine.data)


class _Died(BaseException):
    """Raised instead of a change of the disk, as if the process had died before the change."""


def interrupted(machine: Machine, last: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a recovery that dies after `last` changes. Return False if it has fewer changes."""
    left = [last]

    def about_to(what: str) -> None:
        if not left[0]:
            raise _Died(what)
        left[0] -= 1

    with monkeypatch.context() as patch:
        patch.setattr(commands, "PlannedChanges", lambda path: PlannedChanges(path, about_to))
        try:
            run("recover", "--data", str(machine.data), "--yes")
        except _Died:
            return True
    return False


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_restored_backup_gets_the_later_topics_of_all_brokers(
    machine: Machine, tmp_path: Path, replicas: int
) -> None:
    create(machine, "before", replicas)
    wrote = write(machine, "before")
    backup = tmp_path / "backup"
    assert run("backup", str(backup), "--data", str(machine.data)).exit_code == 0
    create(machine, "later", replicas)
    wrote_later = write(machine, "later")
    wrote += write(machine, "before", 30)
    machine.stop()
    put_back(machine, backup)
    plan = recover(machine)
    assert f"topic later with {PARTITIONS} partitions: found by its folders" in plan
    assert "will be empty" not in plan
    start(machine, "before", "later")
    assert values(machine.addresses, "before", PARTITIONS) == wrote
    assert values(machine.addresses, "later", PARTITIONS) == wrote_later
    assert not [*machine.data.glob("**/*-stray")]
    wrote += write(machine, "before", 60)
    assert values(machine.addresses, "before", PARTITIONS) == wrote


def test_the_brokers_start_with_all_records_after_the_loss_of_all_metadata(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recovery may be interrupted before any change of the disk, and run again."""
    create(machine, "orders")
    wrote = write(machine, "orders")
    machine.stop()
    for path in (*machine.data.glob("oncelog-metadata*"), machine.data / "meta.properties"):
        path.unlink()
    (machine.data / "brokers" / "3" / "meta.properties").write_text("version=7\n")
    damaged = machine.directory / "damaged"
    shutil.copytree(machine.data, damaged)
    changes = 0
    while interrupted(machine, changes, monkeypatch):
        recover(machine, is_planned_first=False)
        changes += 1
        shutil.rmtree(machine.data)
        shutil.copytree(damaged, machine.data)
    assert changes >= 5
    assert "Nothing to do" in run("recover", "--data", str(machine.data)).output
    start(machine, "orders")
    assert values(machine.addresses, "orders", PARTITIONS) == wrote


def test_strays_of_another_broker_become_partitions_again(machine: Machine) -> None:
    """An earlier recovery left out the folders of the other brokers. Broker 2 has put its folder
    aside, and broker 1 has an empty folder of the same partition."""
    create(machine, "orders")
    wrote = write(machine, "orders")
    machine.stop()
    (folder,) = (machine.data / "brokers" / "2").glob("orders-[0-2]")
    aside = folder.rename(folder.with_name(f"{folder.name}.{bytes(16).hex()}-stray"))
    shutil.copytree(aside, machine.data / folder.name)
    for path in (machine.data / folder.name).glob("0*"):
        path.write_bytes(b"")
    plan = recover(machine)
    assert f"brokers/2/{aside.name} becomes brokers/2/{folder.name} again" in plan
    start(machine, "orders")
    assert values(machine.addresses, "orders", PARTITIONS) == wrote


def test_a_recovery_is_refused_while_another_broker_runs_or_on_its_directory_alone(
    machine: Machine,
) -> None:
    create(machine, "orders")
    other = machine.data / "brokers" / "2"
    running = run("recover", "--data", str(machine.data), "--yes")
    assert (running.exit_code, "stop it first" in running.output) == (1, True), running.output
    machine.stop()
    before = fingerprint(machine.data)
    for command in ("recover", "backup"):
        to = [str(machine.data.parent / "to")] if command == "backup" else []
        alone = run(command, *to, "--data", str(other))
        assert alone.exit_code == 1, alone.output
        assert f"--data {machine.data}" in alone.output
    assert fingerprint(machine.data) == before
