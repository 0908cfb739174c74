"""Stream processors in Python, while the application and the broker are killed: Quix Streams
counts exactly once, Faust at most once, FastStream copies at least once."""

from __future__ import annotations

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
from tests.harness.waiting import wait_until

_ROOT = Path(__file__).parents[3]
# `make test-ecosystem` makes this environment.
PYTHON = _ROOT / ".venv-ecosystem" / "bin" / "python"
PROGRAMS = Path(__file__).with_name("programs")
WORDS = 23
PARTITIONS = 2
RATE = 100.0
DEADLINE_S = 180.0
KILLED = f"{KILLS} application, {KILLS} broker"

Start = Callable[[str], Application]


@pytest.fixture
def start(broker: Broker, tmp_path: Path) -> Start:
    """A function that returns the application of a program, not started."""
    if not PYTHON.exists():
        pytest.skip("no .venv-ecosystem: `make test-ecosystem` makes it")
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    topics = [NewTopic(name, PARTITIONS, 1) for name in ("lines", "counts")]
    for created in admin.create_topics(topics).values():
        created.result()

    def application(name: str) -> Application:
        program = [str(PYTHON), str(PROGRAMS / f"{name}.py")]
        return Application(
            [*program, broker.address, str(tmp_path / "state")], tmp_path / f"{name}.log"
        )

    return application


def number(text: bytes | None) -> int:
    """Return the number of a text, or of a text that Faust has encoded as JSON."""
    return int((text or b"").strip(b'"'))


def word(number: int) -> tuple[str, str]:
    return str(number % WORDS), str(number)


def expected_counts(written: int) -> list[tuple[int, int]]:
    """Return each count of each key, where a key is the remainder of a number."""
    return [
        (key, each + 1) for key in range(WORDS) for each in range(len(range(key, written, WORDS)))
    ]


def out_of_order(counts: list[tuple[int, int]]) -> dict[int, list[int]]:
    """Return the counts of each key that are not 1, 2, 3 …"""
    of_key = {key: [count for of, count in counts if of == key] for key in range(WORDS)}
    return {key: each for key, each in of_key.items() if each != [*range(1, len(each) + 1)]}


def test_quix_counts_every_record_once(
    start: Start, broker: Broker, audit: Audit, request: pytest.FixtureRequest
) -> None:
    """The topic has the counts 1, 2, 3 … of each key in order."""
    with start("quix_count") as application:
        with Feeder(broker.address, "lines", word, RATE) as feeder:
            kill_in_turn([application, broker], lambda: audit.progress("counts"))

        def is_complete() -> bool:
            application.revive()
            return len(audit.records("counts")) >= feeder.written

        wait_until(is_complete, f"{feeder.written} counts", DEADLINE_S)
        application.stop()
    counts = [(number(seen.key), number(seen.value)) for seen in audit.records("counts")]
    outcome = compare(expected_counts(feeder.written), counts, audit.open_transactions(), KILLED)
    assert recorded(request, outcome).is_exact(), outcome
    assert not out_of_order(counts)


def test_faust_counts_no_record_twice(
    start: Start, broker: Broker, audit: Audit, request: pytest.FixtureRequest
) -> None:
    """The changelog of the table has the counts 1, 2, 3 … of each key in order.

    The test reads the changelog and no output topic, because Faust uses no transaction for a topic
    that it does not read. Records may be lost: Faust does not flush its buffer before it commits a
    transaction. Changes of the table are then in the next transaction, and their offsets in this
    one.
    """
    topic = "faust-count-count-changelog"
    with start("faust_count") as application:
        with Feeder(broker.address, "lines", word, RATE) as feeder:
            kill_in_turn([application, broker], lambda: audit.progress(topic))

        def is_complete() -> bool:
            application.revive()
            return audit.committed("faust-count", "lines") == feeder.written

        wait_until(is_complete, f"an offset of {feeder.written}", DEADLINE_S)
        application.stop()
    counts = [(number(seen.key), number(seen.value)) for seen in audit.records(topic)]
    outcome = compare(expected_counts(feeder.written), counts, audit.open_transactions(), KILLED)
    assert recorded(request, outcome).doubled == outcome.open == 0, outcome
    assert not out_of_order(counts)


def test_faststream_copies_every_record_at_least_once(
    start: Start, broker: Broker, audit: Audit, request: pytest.FixtureRequest
) -> None:
    """FastStream has no transaction with the offsets of its input. After a kill between a copy and
    the commit of its offset, FastStream copies the record again."""
    with start("faststream_copy") as application:
        with Feeder(broker.address, "lines", word, RATE) as feeder:
            kill_in_turn([application, broker], lambda: audit.progress("counts"))
        expected = {str(number).encode() for number in range(feeder.written)}

        def is_complete() -> bool:
            application.revive()
            return {seen.value for seen in audit.records("counts")} >= expected

        wait_until(is_complete, f"{feeder.written} copies", DEADLINE_S)
        application.stop()
    copies = [seen.value for seen in audit.records("counts")]
    outcome = compare(expected, copies, audit.open_transactions(), KILLED)
    assert recorded(request, outcome).lost == outcome.open == 0, outcome
    assert set(copies) == expected
