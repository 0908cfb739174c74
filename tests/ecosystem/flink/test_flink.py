"""Apache Flink's exactly-once Kafka sink: a job copies a topic while the job and the broker are
killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.ecosystem.audit import Audit
from tests.ecosystem.conftest import Broker
from tests.ecosystem.feeder import Feeder
from tests.ecosystem.kills import KILLS, kill_in_turn
from tests.ecosystem.outcome import compare, recorded
from tests.harness.application import Application
from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import KafkaUnavailable, cache_directory, jars_of
from tests.harness.kafka.java_program import JavaProgram
from tests.harness.waiting import wait_until

_HERE = Path(__file__).parent
PARTITIONS = 2
RATE = 100.0
# Longer than the delivery timeout in Copier.java.
DOWN_S = 1.5
# Flink logs this before it restarts the job in the process.
FAILED = "switched from RUNNING to FAILED with failure cause"
# The longest timeout that a broker accepts by default: transaction.max.timeout.ms.
TIMEOUT_MS = 900_000
# The text of INVALID_TRANSACTION_TIMEOUT in Kafka's client.
REFUSED = (
    "The transaction timeout is larger than the maximum value allowed by the broker"
    " (as configured by transaction.max.timeout.ms)"
)

Copier = Callable[..., Application]


class DownForAWhile:
    """A broker that stays down for longer than the delivery timeout of the job's producers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def kill(self) -> None:
        self._broker.kill()

    def start(self) -> None:
        time.sleep(DOWN_S)
        self._broker.start()


@pytest.fixture
def copier(broker: Broker, tmp_path: Path) -> Copier:
    """A function that returns the job. Its arguments are the naming strategy, and the timeout of a
    transaction if it is not Flink's default. The topics exist."""
    try:
        jars = jars_of(_HERE / "pom.xml", cache_directory() / "flink")
        program = compiled(_HERE / "Copier.java", f"{jars}/*")
    except KafkaUnavailable as reason:
        pytest.skip(f"Flink cannot be run: {reason}")
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    topics = [NewTopic("in", PARTITIONS, 1), NewTopic("out", PARTITIONS, 1)]
    for created in admin.create_topics(topics).values():
        created.result()

    def application(*arguments: object) -> Application:
        return JavaProgram(
            tmp_path / "app.log",
            "Copier",
            (broker.address, tmp_path / "flink", *arguments),
            jars=jars,
            program=program,
            options=["-Dorg.apache.logging.log4j.level=WARN"],
        )

    return application


@pytest.mark.parametrize("naming", ["INCREMENTING", "POOLING"])
def test_every_record_is_copied_once(
    broker: Broker, copier: Copier, naming: str, audit: Audit, request: pytest.FixtureRequest
) -> None:
    """A job that starts aborts the transactions that a killed job has left open. INCREMENTING finds
    them by InitProducerId for one transactional id after another, POOLING by DescribeProducers and
    ListTransactions."""
    with copier(naming, TIMEOUT_MS) as job:
        with Feeder(broker.address, "in", number_record, RATE) as feeder:
            kill_in_turn([job, DownForAWhile(broker)], lambda: audit.progress("out"))

        def is_complete() -> bool:
            job.check()
            return len(audit.records("out")) >= feeder.written

        wait_until(is_complete, f"{feeder.written} copies")
        assert job.end_input() == 0
    assert FAILED in job.said(), "Flink never restarted the job"
    outcome = compare(
        [f"copy of {number}".encode() for number in range(feeder.written)],
        [seen.value for seen in audit.records("out")],
        audit.open_transactions(),
        f"{KILLS} application, {KILLS} broker",
    )
    assert recorded(request, outcome).is_exact(), outcome


def test_the_default_transaction_timeout_is_refused(broker: Broker, copier: Copier) -> None:
    """Flink's default is an hour. The job's log has the reason and the name of the setting."""
    with copier("POOLING") as job:
        wait_until(lambda: REFUSED in job.said(), "the refusal")


def number_record(number: int) -> tuple[str, str]:
    return str(number), str(number)
