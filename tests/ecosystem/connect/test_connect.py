"""Kafka Connect in distributed mode: a source with exactly-once support and a sink, while the
workers and the broker are killed and the workers are restarted in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.ecosystem.audit import Audit
from tests.ecosystem.background import Background
from tests.ecosystem.conftest import Broker
from tests.ecosystem.connect.worker import Worker
from tests.ecosystem.kills import KILLS, kill_in_turn
from tests.ecosystem.outcome import compare, recorded
from tests.harness.kafka.jars import KafkaUnavailable, cache_directory, jars_of
from tests.harness.kafka.java_program import ENDED
from tests.harness.waiting import wait_until

_POM = Path(__file__).with_name("pom.xml")
TOPIC = "lines"
PAUSE_S = 0.01
LINES_OF_A_ROUND = 500
ROUND_DEADLINE_S = 120.0


class Writer(Background):
    """Appends the lines `line 0`, `line 1`, … to a file until the end of the context."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.written = 0

    def work(self) -> None:
        with self._path.open("a", buffering=1) as file:
            while not self.is_over(PAUSE_S):
                file.write(f"line {self.written}\n")
                self.written += 1


def has_more(audit: Audit, before: int) -> bool:
    return (audit.progress(TOPIC) or 0) > before + LINES_OF_A_ROUND


@pytest.fixture
def workers(broker: Broker, tmp_path: Path) -> Iterator[list[Worker]]:
    try:
        jars = jars_of(_POM, cache_directory() / "connect")
    except KafkaUnavailable as reason:
        pytest.skip(f"Kafka Connect cannot be run: {reason}")
    with ExitStack() as stack:
        names = ("worker-a", "worker-b")
        yield [stack.enter_context(Worker(tmp_path, n, broker.address, jars)) for n in names]


def create_connectors(worker: Worker, source: Path, sink: Path) -> None:
    worker.create(
        "source",
        {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "exactly.once.support": "required",
            "file": str(source),
            "topic": TOPIC,
            "tasks.max": "1",
        },
    )
    worker.create(
        "sink",
        {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(sink),
            "topics": TOPIC,
            "tasks.max": "1",
        },
    )


def test_a_source_writes_each_line_once_and_a_sink_loses_none(
    broker: Broker,
    workers: list[Worker],
    audit: Audit,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """The sink is idempotent by the number in the line: it may write a line twice after a kill."""
    first, second = workers
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.touch()
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
    create_connectors(first, source, sink)

    def progress() -> int | None:
        # The other worker has to fence the older instances of a task. If that worker starts at this
        # moment, the task fails and is not retried.
        for worker in workers:
            worker.restart_failed("source", "ConnectRestException")
        return audit.progress(TOPIC)

    with Writer(source) as writer:
        kill_in_turn([first, broker, second, broker], progress, KILLS // 2)
        for worker in workers:
            assert worker.stop() in ENDED
            worker.start()
            wait_until(
                partial(has_more, audit, audit.progress(TOPIC) or 0),
                "the workers continue",
                ROUND_DEADLINE_S,
            )
    expected = [f"line {number}".encode() for number in range(writer.written)]
    wait_until(lambda: len(audit.records(TOPIC)) >= len(expected), "all lines", ROUND_DEADLINE_S)
    wait_until(
        lambda: expected[-1] in sink.read_bytes().splitlines(), "the sink's end", ROUND_DEADLINE_S
    )
    for worker in workers:
        assert worker.stop() in ENDED
    outcome = compare(
        expected,
        [record.value for record in audit.records(TOPIC)],
        audit.open_transactions(),
        f"{KILLS} workers, {KILLS} broker",
    )
    assert recorded(request, outcome).is_exact(), outcome
    assert [record.value for record in audit.records(TOPIC)] == expected
    assert set(sink.read_bytes().splitlines()) == set(expected)
