"""Spring Kafka: a transactional listener reads, processes and writes, in two instances of a group,
while the instances and the broker are killed, and while an instance hangs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.ecosystem.audit import Audit
from tests.ecosystem.conftest import Broker
from tests.ecosystem.feeder import Feeder
from tests.ecosystem.kills import DEADLINE_S, KILLS, kill_in_turn
from tests.ecosystem.outcome import compare, recorded
from tests.harness.application import Application
from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import KafkaUnavailable, cache_directory, jars_of
from tests.harness.kafka.java_program import ENDED, JavaProgram
from tests.harness.waiting import wait_until

_HERE = Path(__file__).parent
PARTITIONS = 2
RATE = 50.0
# Records that the other instance copies while an instance hangs.
MEANWHILE = 100
HANGS = 3


@pytest.fixture
def instances(broker: Broker, tmp_path: Path) -> Iterator[list[Application]]:
    try:
        jars = jars_of(_HERE / "pom.xml", cache_directory() / "spring")
        copy = compiled(_HERE / "Copy.java", f"{jars}/*")
    except KafkaUnavailable as reason:
        pytest.skip(f"Spring Kafka cannot be run: {reason}")
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    topics = [NewTopic(name, PARTITIONS, 1) for name in ("in", "out")]
    for created in admin.create_topics(topics).values():
        created.result()

    def instance(name: str) -> JavaProgram:
        arguments = (broker.address, f"{name}-")
        return JavaProgram(tmp_path / f"{name}.log", "Copy", arguments, jars=jars, program=copy)

    with ExitStack() as stack:
        yield [stack.enter_context(instance(name)) for name in ("a", "b")]


def has_grown(progress: Callable[[], int | None], before: int) -> bool:
    return (progress() or 0) > before + MEANWHILE


def test_each_record_is_copied_once(
    broker: Broker, instances: list[Application], audit: Audit, request: pytest.FixtureRequest
) -> None:
    """A hanging instance loses its partitions. When it continues, the broker refuses its
    transaction, because the generation of its group is older (KIP-447)."""
    first, second = instances
    progress = partial(audit.progress, "out")
    with Feeder(broker.address, "in", lambda number: (str(number),) * 2, RATE) as feeder:
        kill_in_turn([first, broker, second, broker], progress, KILLS // 2)
        for number in range(HANGS):
            hanging = instances[number % 2]
            hanging.pause()
            wait_until(
                partial(has_grown, progress, progress() or 0), "the other continues", DEADLINE_S
            )
            hanging.resume()
            wait_until(partial(has_grown, progress, progress() or 0), "both continue", DEADLINE_S)
    expected = [str(number).encode() for number in range(feeder.written)]
    wait_until(
        lambda: len(audit.records("out")) >= len(expected), f"{len(expected)} copies", DEADLINE_S
    )
    for instance in instances:
        assert instance.stop() in ENDED
    outcome = compare(
        expected,
        [seen.value for seen in audit.records("out")],
        audit.open_transactions(),
        f"{KILLS} application, {KILLS} broker, {HANGS} hangs",
    )
    assert recorded(request, outcome).is_exact(), outcome
