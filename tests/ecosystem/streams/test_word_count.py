"""Kafka Streams, exactly_once_v2 with RocksDB: a stateful count while the application and the
broker are killed."""

from __future__ import annotations

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
WORDS = 23
PARTITIONS = 2
RATE = 100.0
CHANGELOG = "word-count-counts-store-changelog"


@pytest.fixture
def word_count(broker: Broker, tmp_path: Path) -> Application:
    try:
        jars = jars_of(_HERE / "pom.xml", cache_directory() / "streams")
        program = compiled(_HERE / "WordCount.java", f"{jars}/*")
    except KafkaUnavailable as reason:
        pytest.skip(f"Kafka Streams cannot be run: {reason}")
    arguments = (broker.address, tmp_path / "state")
    return JavaProgram(tmp_path / "app.log", "WordCount", arguments, jars=jars, program=program)


def test_every_word_is_counted_once(
    broker: Broker, word_count: Application, audit: Audit, request: pytest.FixtureRequest
) -> None:
    """The output has the counts 1, 2, 3 … of each word without a gap or a repetition, the store has
    the last count of each word, and so has the store's changelog."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    topics = [NewTopic("lines", PARTITIONS, 1), NewTopic("counts", PARTITIONS, 1)]
    for created in admin.create_topics(topics).values():
        created.result()
    with word_count:
        with Feeder(broker.address, "lines", word, RATE) as feeder:
            kill_in_turn([word_count, broker], lambda: audit.progress("counts"))
        expected = {key: len(range(key, feeder.written, WORDS)) for key in range(WORDS)}

        def is_complete() -> bool:
            word_count.revive()
            return len(audit.records("counts")) >= feeder.written

        wait_until(is_complete, f"{feeder.written} counts")
        word_count.write_line()
        store = dict(row.split("=") for row in word_count.wait_for_line("store").split()[1:])
        assert store == {str(key): str(count) for key, count in expected.items()}
        assert word_count.end_input() == 0
    changelog = {record.key: record.value for record in audit.records(CHANGELOG)}
    assert changelog == {
        str(key).encode(): count.to_bytes(8, "big") for key, count in expected.items()
    }
    counts = [(int(seen.key or b""), int(seen.value or b"")) for seen in audit.records("counts")]
    outcome = compare(
        [(key, number + 1) for key, count in expected.items() for number in range(count)],
        counts,
        audit.open_transactions(),
        f"{KILLS} application, {KILLS} broker",
    )
    assert recorded(request, outcome).is_exact(), outcome
    in_order = {key: [count for of, count in counts if of == key] for key in expected}
    assert in_order == {key: [*range(1, count + 1)] for key, count in expected.items()}


def word(number: int) -> tuple[str, str]:
    return str(number), str(number % WORDS)
