"""docs/spark.md lists the options of the code, and its first program runs unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelog_client.core.acl_bindings import PatternType
from oncelog_client.spark.settings.options import OPTIONS, Options
from oncelog_client.spark.settings.rights import Right
from oncelog_client.spark.sink.protocol.columns import TYPES
from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.sink_options import sink_options
from oncelog_client.spark.sink.protocol.sink_rights import sink_rights
from oncelog_client.spark.source.plan.schema import COLUMNS
from oncelog_client.spark.source.plan.source_options import source_options
from oncelog_client.spark.source.plan.source_rights import source_rights
from tests.spark.guarded import GuardedOncelog, password_of
from tests.spark.topics import Topics

DOCUMENT = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


def rows(heading: str) -> Iterator[list[str]]:
    """Yield the cells of the first table below a heading, without its header row."""
    section = re.split(r"^#+ ", DOCUMENT.partition(f"# {heading}\n")[2], flags=re.MULTILINE)[0]
    lines = dropwhile(lambda line: not line.startswith("|"), section.splitlines())
    table = takewhile(lambda line: line.startswith("|"), lines)
    for line in [*table][2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("heading", "side"), [("Source options", "source"), ("Sink options", "sink")]
)
def test_the_tables_list_exactly_the_options_of_the_code(heading: str, side: str) -> None:
    cells = [row[0] for row in rows(heading)]
    assert len({*cells}) == len(cells)
    documented = {re.sub(r"[` *]", "", cell): cell.endswith("*") for cell in cells}
    assert documented == {
        name: "ours" in use for name, use in OPTIONS.items() if side in use.split(", ")[0]
    }


def test_the_documented_defaults_are_the_defaults_of_the_code() -> None:
    documented = {row[0].strip("` *"): row[1].strip("`") for row in rows("Source options")}
    given = Options({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "purchases"})
    source = source_options(given, streaming=True)
    assert documented["kafkaConsumer.pollTimeoutMs"] == str(source.poll_timeout_ms)
    assert documented["fetchOffset.numRetries"] == str(source.fetch_retries)
    assert documented["fetchOffset.retryIntervalMs"] == str(source.fetch_retry_interval_ms)
    assert documented["failOnDataLoss"] == str(source.fail_on_data_loss).lower()
    assert documented["maxTriggerDelay"] == f"{source.max_trigger_delay_ms // 60_000}m"
    sink = sink_options(given, streaming=True)
    assert sink.transaction_timeout_ms == 15 * 60_000
    assert (sink.forced, sink.adopts) == (None, False)


def test_the_documented_columns_are_the_columns_of_the_code() -> None:
    read = [name for cell, *_ in rows("Reading") for name in re.findall(r"\w+", cell)]
    assert read == [*COLUMNS]
    written = {row[0].strip("`"): row[1] for row in rows("Writing")}
    types = {name: " or ".join(reversed(wanted)) for name, wanted in TYPES.items()}
    assert {
        name: text.replace(": ", ":").replace(", ", ",") for name, text in written.items()
    } == types


def test_the_documented_access_rules_are_those_of_the_code() -> None:
    documented = {
        (query, operation, resource, name.replace("`", ""), effect.startswith("optional"))
        for query, operation, resource, name, effect in rows("Access rules")
    }
    name, topics = "<sinkId>", ["<topic>"]
    rights = {
        "source": source_rights(topics, group="<group>"),
        f"source with `startingOffsets=sink:{name}`": source_rights((), sink_id=name),
        **{f"sink, `{kind}`": sink_rights(name, topics, kind) for kind in CommitKind},
    }
    assert documented == {
        (query, right.operation.name, right.resource_type.name, shown(right), right.is_optional)
        for query, of_query in rights.items()
        for right in of_query
    }


def shown(right: Right) -> str:
    is_literal = right.pattern_type is PatternType.LITERAL
    return right.name if is_literal else f"{right.name}, {right.pattern_type.name}"


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", DOCUMENT, flags=re.DOTALL)


def with_other(program: str, *replacements: tuple[str, str]) -> str:
    """Return the document's program with the names of this test."""
    for stands, here in replacements:
        assert stands in program
        program = program.replace(stands, here)
    return program


def test_the_first_program_of_the_document_runs(
    spark: SparkSession, topics: Topics, name: str, checkpoint: str
) -> None:
    lengths = f"lengths-of-{name}"
    topics.create_all([name, lengths])
    topics.append(name, [b"every", b"word", b"once"])
    program = with_other(
        programs()[0],
        ("localhost:9092", topics.bootstrap),
        ('"words"', f'"{name}"'),
        ('"lengths"', f'"{lengths}"'),
        ("/tmp/checkpoints/lengths", checkpoint),
        ("query.awaitTermination()", "query.processAllAvailable()"),
        ("addListener(ProgressListener())", "addListener(listener := ProgressListener())"),
    )
    names: dict[str, Any] = {}
    try:
        exec(compile(program, "docs/spark.md", "exec"), names)
    finally:
        spark.streams.removeListener(names["listener"])
    read = sorted((record.key, record.value) for record in topics.read(lengths))
    assert read == [(b"every", b"5"), (b"once", b"4"), (b"word", b"4")]


def test_the_documented_options_for_tls_and_a_user_work(
    spark: SparkSession,
    guarded: GuardedOncelog,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = Topics(guarded.address)
    topics.create(name)
    topics.append(name, [b"once"])
    user = guarded.user("spark", source_rights([name]))
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "authority.pem").write_text(user["kafka.ssl.truststore.certificates"])
    (secrets / "spark.password").write_text(password_of("spark"))
    monkeypatch.chdir(tmp_path)
    program = with_other(
        next(program for program in programs() if "secured" in program),
        ("localhost:9094", user["kafka.bootstrap.servers"]),
        ('"words"', f'"{name}"'),
    )
    names: dict[str, Any] = {"spark": spark}
    exec(compile(program, "docs/spark.md", "exec"), names)
    assert names["words"].isStreaming
    read = spark.read.format("oncelog").options(**names["secured"]).option("subscribe", name)
    assert [bytes(row.value) for row in read.load().collect()] == [b"once"]


def test_the_documented_program_for_update_mode_works(
    spark: SparkSession, topics: Topics, name: str, checkpoint: str
) -> None:
    totals = f"totals-of-{name}"
    topics.create_all([name, totals], partitions=1)
    words = (
        spark.readStream.format("oncelog")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .load()
    )
    counts = words.groupBy(words.value.alias("key")).count()
    names = {"totals": counts.select("key", counts["count"].cast("string").alias("value"))}
    program = with_other(
        next(program for program in programs() if "foreachBatch" in program),
        ("localhost:9092", topics.bootstrap),
        ('"totals"', f'"{totals}"'),
        ("/tmp/checkpoints/totals", checkpoint),
    )
    exec(compile(program, "docs/spark.md", "exec"), names)
    query: Any = names["query"]
    for word in (b"once", b"twice", b"twice"):
        topics.append(name, [word])
        query.processAllAvailable()
    read = [(record.key, record.value) for record in topics.read(totals)]
    assert read == [(b"once", b"1"), (b"twice", b"1"), (b"twice", b"2")]
