"""The brokers of the matrix: each row runs against oncelog, and against Apache Kafka as control."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.ecosystem.audit import Audit
from tests.ecosystem.outcome import summary
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK
from tests.harness.kafka.kafka import Kafka

Broker = Oncelog | Kafka
# Members of killed applications are removed soon. A killed Apache Kafka may soon register again.
SETTINGS = {
    **QUICK,
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
}
KAFKA_SETTINGS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}


@pytest.fixture(params=["oncelog", "kafka"])
def kind(request: pytest.FixtureRequest) -> str:
    """The broker of the row, or the control."""
    name: str = request.param
    if name == "kafka":
        request.getfixturevalue("kafka_jars")
    return name


@pytest.fixture
def broker_of(tmp_path: Path) -> Iterator[Callable[[str], Broker]]:
    """A function that starts a broker of a kind."""
    with ExitStack() as stack:

        def start(kind: str) -> Broker:
            number = len(list(tmp_path.glob("broker-*")))
            folder = tmp_path / f"broker-{number}"
            if kind == "kafka":
                return stack.enter_context(Kafka(folder, SETTINGS | KAFKA_SETTINGS))
            return stack.enter_context(Oncelog(folder, SETTINGS))

        yield start


@pytest.fixture
def broker(kind: str, broker_of: Callable[[str], Broker]) -> Broker:
    """The broker of the row. The test may kill and start it."""
    return broker_of(kind)


@pytest.fixture
def audit(broker: Broker) -> Audit:
    """A reader of what the broker's clients have committed."""
    return Audit(broker.address)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Expect the failure of a control if Apache Kafka has left a hanging transaction.

    After a kill -9, Apache Kafka 4.3.1 sometimes completes a transaction (CompleteCommit in
    `__transaction_state`) without a marker in each of its partitions. The readers of committed
    records then wait forever.
    """
    try:
        return (yield)
    except AssertionError as error:
        if pyfuncitem.funcargs.get("kind") == "kafka":
            broker = pyfuncitem.funcargs["broker"]
            assert isinstance(broker, Kafka)
            hanging = Audit(broker.address).hanging()
            if hanging:
                raise pytest.xfail.Exception(f"Apache Kafka left hanging: {hanging}") from error
        raise


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts of each row."""
    reports = [
        report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)
    ]
    lines = summary(report for report in reports if isinstance(report, pytest.TestReport))
    if lines:
        terminalreporter.section("ecosystem")
        for line in lines:
            terminalreporter.write_line(line)
