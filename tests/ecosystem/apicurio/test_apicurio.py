"""Apicurio Registry with its storage in topics of the broker: Confluent's serializers register Avro
schemas without end and write records of them in transactions, while the registry, the program and
the broker are killed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.ecosystem.apicurio.registry import FINDS_SNAPSHOTS, JOURNAL, Registry, prepare
from tests.ecosystem.audit import Audit
from tests.ecosystem.conftest import Broker
from tests.ecosystem.kills import DEADLINE_S, KILLS, kill_in_turn
from tests.ecosystem.outcome import compare, recorded
from tests.harness.application import Application
from tests.harness.kafka.jars import KafkaUnavailable
from tests.harness.waiting import wait_until

_ROOT = Path(__file__).parents[3]
# `make test-ecosystem` makes this environment.
PYTHON = _ROOT / ".venv-ecosystem" / "bin" / "python"
PROGRAM = Path(__file__).parent / "programs" / "avro_purchases.py"
# As in the program.
PARTITIONS = {"records": 2, "schemas": 1}
PARTS = 10
READ_TIMEOUT_S = 120.0
# The registry logs this at a start from a snapshot.
RESTORED = "Restoring snapshot"

Start = Callable[..., Registry]


@pytest.fixture
def registry_of(broker: Broker, tmp_path: Path) -> Start:
    """A function that returns a registry, not started. Its arguments are the names of the log and
    of the folder of the snapshots, and further arguments of the class."""
    if not PYTHON.exists():
        pytest.skip("no .venv-ecosystem: `make test-ecosystem` makes it")
    try:
        prepare(tmp_path, broker.address)
    except KafkaUnavailable as reason:
        pytest.skip(f"Apicurio Registry cannot be run: {reason}")
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    topics = [NewTopic(name, number, 1) for name, number in PARTITIONS.items()]
    for created in admin.create_topics(topics).values():
        created.result()

    def registry(log: str, snapshots: str, *further: Mapping[str, str]) -> Registry:
        return Registry(tmp_path / log, broker.address, tmp_path / snapshots, *further)

    return registry


def command(name: str, broker: Broker, registry: Registry) -> list[str]:
    """Return the command of the program `name`."""
    arguments = [broker.address, registry.url, registry.ready_url]
    return [str(PYTHON), str(PROGRAM), name, *arguments]


def write_under_kills(broker: Broker, registry: Registry, writer: Application, audit: Audit) -> int:
    """Run the writer until after the last kill. Return an offset of the journal that is before the
    record with the place of a snapshot."""
    victims = [registry, writer, broker]
    progress = partial(audit.progress, "schemas")
    kill_in_turn(victims, progress, KILLS // 2)
    before_snapshot = audit.ends(JOURNAL)[0]
    registry.snapshot()
    kill_in_turn(victims, progress, KILLS // 2)
    seen = progress() or 0

    def continues() -> bool:
        registry.revive()
        writer.revive()
        return (progress() or 0) > seen

    wait_until(continues, f"progress beyond {seen}", DEADLINE_S)
    return before_snapshot


def lines_of(broker: Broker, registry: Registry) -> list[str]:
    """Return a line for each committed record and for each schema, as the registry knows them after
    a start."""
    with registry:
        registry.wait_until_ready()
        outcome = subprocess.run(
            command("read", broker, registry),
            capture_output=True,
            text=True,
            timeout=READ_TIMEOUT_S,
            check=False,
        )
    assert outcome.returncode == 0, outcome.stderr[-4000:]
    return outcome.stdout.splitlines()


def delete_before(broker: Broker, offset: int) -> None:
    """Delete the older records of the journal."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    for deleted in admin.delete_records([TopicPartition(JOURNAL, 0, offset)]).values():
        deleted.result()


def test_every_schema_keeps_its_id_and_every_record_decodes(
    broker: Broker,
    registry_of: Start,
    audit: Audit,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """A registry that starts from the journal alone has exactly the schemas of all committed
    transactions, with the same ids. The same holds for a registry that starts from a snapshot,
    after the deletion of the journal before the snapshot."""
    registry = registry_of("registry.log", "snapshots")
    writer = Application(command("write", broker, registry), tmp_path / "writer.log")
    with registry, writer:
        before_snapshot = write_under_kills(broker, registry, writer, audit)
        assert writer.stop() == 0
        transactions = int(writer.said().splitlines()[-1].removeprefix("written "))

    expected = [(record.value or b"").decode() for record in audit.records("schemas")]
    assert len(expected) == transactions
    expected += [
        json.dumps(["record", number, part])
        for number in range(transactions)
        for part in range(PARTS)
    ]
    from_journal = registry_of("from-journal.log", "no-snapshots")
    lines = lines_of(broker, from_journal)
    assert RESTORED not in from_journal.said()
    outcome = compare(
        expected,
        lines,
        audit.open_transactions(),
        f"{KILLS} registry, {KILLS} application, {KILLS} broker",
    )
    assert recorded(request, outcome).is_exact(), outcome

    delete_before(broker, before_snapshot)
    from_snapshot = registry_of("from-snapshot.log", "snapshots", FINDS_SNAPSHOTS)
    assert sorted(lines_of(broker, from_snapshot)) == sorted(lines)
    assert RESTORED in from_snapshot.said()
