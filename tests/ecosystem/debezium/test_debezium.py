"""Debezium's PostgreSQL connector in Kafka Connect, exactly once: the changes of a table and the
events of an outbox, while the worker, the broker and the database are killed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.ecosystem.audit import Audit
from tests.ecosystem.background import Background
from tests.ecosystem.conftest import Broker
from tests.ecosystem.connect.worker import Worker
from tests.ecosystem.debezium.postgres import Postgres, PostgresUnavailable, SessionLost
from tests.ecosystem.kills import KILLS, kill_in_turn
from tests.ecosystem.outcome import compare, recorded
from tests.harness.kafka.jars import KafkaUnavailable, cache_directory, jars_of
from tests.harness.waiting import wait_until

_POM = Path(__file__).with_name("pom.xml")
_JSON = {
    f"{of}.converter{option}": value
    for of in ("key", "value")
    for option, value in (
        ("", "org.apache.kafka.connect.json.JsonConverter"),
        (".schemas.enable", "false"),
    )
}
CUSTOMERS = 7
RATE = 50.0
TABLE, OUTBOX = "shop.public.purchases", "outbox.event.purchase"
DEADLINE_S = 120.0

_SCHEMA = """
CREATE TABLE purchases (number int PRIMARY KEY, customer int NOT NULL);
CREATE TABLE outbox (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL,
    aggregateid text NOT NULL, type text NOT NULL, payload text NOT NULL
);
CREATE PUBLICATION changes FOR TABLE purchases, outbox;
SELECT pg_create_logical_replication_slot('changes', 'pgoutput');
"""
_NEXT = "SELECT coalesce(max(number) + 1, 0) FROM purchases;"
_ALL = "SELECT customer, number FROM purchases ORDER BY number;"
_CONNECTOR = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "exactly.once.support": "required",
    "database.hostname": "127.0.0.1",
    "database.user": "postgres",
    "database.dbname": "postgres",
    "topic.prefix": "shop",
    "plugin.name": "pgoutput",
    "slot.name": "changes",
    "publication.name": "changes",
    "publication.autocreate.mode": "disabled",
    # The slot is older than the first row, so a snapshot has nothing to read. A snapshot is not
    # exactly once: after a kill it begins again.
    "snapshot.mode": "no_data",
    # The records of a customer have one key, so they have an order.
    "message.key.columns": "public.purchases:customer",
    "topic.creation.default.partitions": "2",
    "topic.creation.default.replication.factor": "1",
    "transforms": "outbox",
    "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    "transforms.outbox.predicate": "is-outbox",
    "predicates": "is-outbox",
    "predicates.is-outbox.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.is-outbox.pattern": r"shop\.public\.outbox",
    # Debezium connects again soon after a kill of the database.
    "retriable.restart.connector.wait.ms": "500",
    "errors.retry.delay.initial.ms": "100",
    "errors.retry.delay.max.ms": "500",
    "slot.retry.delay.ms": "500",
    "slot.max.retries": "60",
}


class Purchases(Background):
    """A thread that inserts the numbers from 0 on, at `RATE` a second, until the end of the
    context. Each number is a row of the table and an event of the outbox, in one transaction."""

    def __init__(self, database: Postgres) -> None:
        super().__init__()
        self._database = database

    def work(self) -> None:
        while not self.is_over(0.05):
            try:
                self._insert()
            except SessionLost:
                continue

    def _insert(self) -> None:
        with self._database.session() as session:
            # After a lost session it is unknown whether the last transaction took effect.
            number = int(session.execute(_NEXT)[0])
            while not self.is_over(1 / RATE):
                session.execute(purchase(number))
                number += 1


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Postgres]:
    try:
        postgres = Postgres(tmp_path / "postgres.log")
    except PostgresUnavailable as reason:
        pytest.skip(f"PostgreSQL cannot be run: {reason}")
    with postgres:
        postgres.execute(_SCHEMA)
        yield postgres


@pytest.fixture
def worker(broker: Broker, tmp_path: Path) -> Worker:
    try:
        jars = jars_of(_POM, cache_directory() / "debezium")
    except KafkaUnavailable as reason:
        pytest.skip(f"Debezium cannot be run: {reason}")
    return Worker(tmp_path, "worker", broker.address, jars, _JSON)


def test_every_change_arrives_once(
    broker: Broker,
    database: Postgres,
    worker: Worker,
    audit: Audit,
    request: pytest.FixtureRequest,
) -> None:
    """The topic of the table and the topic of the outbox have each committed row once, and the rows
    of each customer in their order."""

    def progress() -> int | None:
        # Debezium fails for good if the database is down at some moments of its start.
        worker.restart_failed("shop", "PSQLException")
        return audit.progress(TABLE, OUTBOX)

    with worker:
        with Purchases(database):
            worker.create("shop", {**_CONNECTOR, "database.port": str(database.port)})
            # Records in flight count as progress, so the broker is killed soon after the database.
            # The worker is not killed before Debezium has connected to both again.
            kill_in_turn([worker, database, broker], progress)
        rows = [tuple(map(int, row.split("|"))) for row in database.execute(_ALL)]
        assert [number for _, number in rows] == [*range(len(rows))]

        def is_complete() -> bool:
            worker.check()
            worker.restart_failed("shop", "PSQLException")
            return all(set(rows) <= set(seen(audit)) for seen in (of_table, of_outbox))

        wait_until(is_complete, f"{len(rows)} changes", DEADLINE_S)
        worker.stop()
    changes, events = of_table(audit), of_outbox(audit)
    outcome = compare(
        [(topic, *row) for topic in (TABLE, OUTBOX) for row in rows],
        [(TABLE, *change) for change in changes] + [(OUTBOX, *event) for event in events],
        audit.open_transactions(),
        f"{KILLS} worker, {KILLS} broker, {KILLS} database",
    )
    assert recorded(request, outcome).is_exact(), outcome
    for seen in (changes, events):
        assert by_customer(seen) == by_customer(rows)


def purchase(number: int) -> str:
    """Return the statements of a transaction."""
    customer = number % CUSTOMERS
    return (
        f"BEGIN; INSERT INTO purchases VALUES ({number}, {customer});"
        " INSERT INTO outbox (aggregatetype, aggregateid, type, payload)"
        f" VALUES ('purchase', '{customer}', 'made', '{number}'); COMMIT;"
    )


def of_table(audit: Audit) -> list[tuple[int, int]]:
    """Return the customer and the number of each change."""
    changes = []
    for seen in audit.records(TABLE):
        change = json.loads(seen.value or b"")
        row = change["after"]
        assert change["op"] == "c", change
        assert json.loads(seen.key or b"") == {"customer": row["customer"]}
        changes.append((row["customer"], row["number"]))
    return changes


def of_outbox(audit: Audit) -> list[tuple[int, int]]:
    """Return the customer and the number of each event."""
    return [
        (int(json.loads(seen.key or b"")), int(json.loads(seen.value or b"")))
        for seen in audit.records(OUTBOX)
    ]


def by_customer(rows: Sequence[tuple[int, ...]]) -> dict[int, list[int]]:
    return {of: [number for customer, number in rows if customer == of] for of in range(CUSTOMERS)}
