"""`spark.readStream` and `writeStream` of the official connector: a query copies topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.connector.conftest import Broker
from tests.spark.connector.log import Log
from tests.spark.connector.options import Options, anywhere, by_partition, sink, source
from tests.spark.connector.process import SparkError, SparkProcess
from tests.spark.topics import Row


class Copy:
    """A query from one topic to another. All its runs use one checkpoint."""

    def __init__(self, connector: SparkProcess, log: Log, topic: str, folder: Path) -> None:
        self.topic = log.create(topic, partitions=2)
        self.target = log.create(f"{topic}-copy", partitions=1)
        self._connector, self._log, self._folder = connector, log, folder

    def start(self, given: Options, *, available_now: bool = False) -> None:
        """Start the query. It runs until `stop`; with `available_now` until it has read all
        existing records."""
        self._call(
            "start",
            source={"startingOffsets": "earliest"} | given,
            sink=sink(self._log, self.target),
            checkpoint=str(self._folder / "checkpoint"),
            available_now=available_now,
        )

    def copy_all(self, given: Options) -> list[dict[str, Any]]:
        """Copy all existing records with Trigger.AvailableNow. Return the progress of the
        micro-batches."""
        self.start(given, available_now=True)
        try:
            self._call("end")
            return [batch for batch in self.progress() if batch["numInputRows"]]
        finally:
            self.stop()

    def catch_up(self) -> None:
        """Wait until the running query has copied all existing records."""
        self._call("catch_up")

    def stop(self) -> None:
        self._call("stop")

    def progress(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._call("progress")
        return found

    def copied(self) -> list[str]:
        """Return the written values, sorted."""
        return sorted((value or b"").decode() for value in self._log.values(self.target))

    def _call(self, operation: str, **fields: Any) -> Any:
        return self._connector.call(operation, name=self.topic, **fields)


@pytest.fixture
def copy(connector: SparkProcess, log: Log, topic: str, tmp_path: Path) -> Copy:
    return Copy(connector, log, topic, tmp_path)


@pytest.fixture
def running(copy: Copy, log: Log) -> Iterator[Copy]:
    """Start a query that waits for rows of its topic."""
    copy.start(source(log, copy.topic))
    yield copy
    copy.stop()


def test_available_records_are_copied_in_micro_batches_of_the_maximum_size(
    copy: Copy, log: Log
) -> None:
    log.append(copy.topic, [Row(b"%02d" % i, partition=i % 2) for i in range(40)])
    batches = copy.copy_all(source(log, copy.topic, maxOffsetsPerTrigger="10"))
    assert [batch["numInputRows"] for batch in batches] == [10, 10, 10, 10]
    assert copy.copied() == [f"{i:02}" for i in range(40)]


def test_a_query_ends_at_the_last_stable_offset_and_continues_there(copy: Copy, log: Log) -> None:
    log.append_transaction(copy.topic, [Row(b"a", partition=0)])
    log.append_transaction(copy.topic, [Row(b"aborted", partition=1)], commit=False)
    with log.open_transaction(copy.topic, [Row(b"open", partition=0)]):
        log.append(copy.topic, [Row(b"after", partition=0)])
        (batch,) = copy.copy_all(source(log, copy.topic))
        assert copy.copied() == ["a"]
    # Each partition has a record and a marker, then a record of the open transaction.
    assert batch["sources"][0]["endOffset"] == {copy.topic: {"0": 2, "1": 2}}
    copy.copy_all(source(log, copy.topic))
    assert copy.copied() == ["a", "after", "open"]


def test_a_query_reads_only_committed_transactions(running: Copy, log: Log) -> None:
    with log.open_transaction(running.topic, [Row(b"late", partition=0)]):
        log.append(running.topic, [Row(b"early", partition=1)])
        running.catch_up()
        assert running.copied() == ["early"]
    log.append_transaction(running.topic, [Row(b"aborted", partition=1)], commit=False)
    running.catch_up()
    assert running.copied() == ["early", "late"]


def test_a_query_continues_after_a_restart_of_the_broker(
    running: Copy, log: Log, either: Broker
) -> None:
    before = [b"before-%03d" % i for i in range(100)]
    log.append(running.topic, before)
    running.catch_up()
    either.kill()
    either.start()
    after = [b"after-%03d" % i for i in range(100)]
    log.append(running.topic, after)
    running.catch_up()
    # The connector promises at least once. No row is there twice, because its producer is
    # idempotent: the broker ignores a batch that was resent after a lost response.
    assert running.copied() == sorted(value.decode() for value in before + after)


def test_a_query_finds_new_partitions_and_reads_them_from_their_beginning(
    running: Copy, log: Log
) -> None:
    log.append(running.topic, [Row(b"old", partition=0)])
    running.catch_up()
    log.add_partitions(running.topic, 3)
    log.append(running.topic, [Row(b"new", partition=2)])
    running.catch_up()
    assert running.copied() == ["new", "old"]


def test_a_query_finds_new_topics_of_its_pattern(copy: Copy, log: Log) -> None:
    pattern = anywhere(log, subscribePattern=f"^{copy.topic}(-[0-9]+)?$")
    log.append(copy.topic, [b"first"])
    copy.start(pattern)
    try:
        copy.catch_up()
        log.append(log.create(f"{copy.topic}-2"), [b"second"])
        copy.catch_up()
    finally:
        copy.stop()
    assert copy.copied() == ["first", "second"]


def test_a_query_with_starting_offsets_latest_reads_only_new_records(copy: Copy, log: Log) -> None:
    log.append(copy.topic, [Row(b"old", partition=0), Row(b"old", partition=1)])
    copy.start(source(log, copy.topic, startingOffsets="latest"))
    try:
        copy.catch_up()
        log.append(copy.topic, [Row(b"new", partition=1)])
        copy.catch_up()
    finally:
        copy.stop()
    assert copy.copied() == ["new"]


def test_a_query_starts_at_offsets(copy: Copy, log: Log) -> None:
    t0 = 1_700_000_000_000
    rows = [Row(b"%d" % i, partition=i % 2, timestamp_ms=t0 + i) for i in range(10)]
    log.append(copy.topic, rows)
    starts = by_partition(copy.topic, {0: 4, 1: -1})
    copy.copy_all(source(log, copy.topic, startingOffsets=starts))
    assert copy.copied() == ["8"]


def test_records_deleted_before_they_were_read_are_an_error_or_are_skipped(
    copy: Copy, log: Log
) -> None:
    log.append(copy.topic, [Row(b"%d" % i, partition=0) for i in range(10)])
    given = source(log, copy.topic, maxOffsetsPerTrigger="2")
    copy.copy_all(given)
    log.append(copy.topic, [Row(b"a%d" % i, partition=0) for i in range(4)])
    log.delete_before(copy.topic, 12)
    with pytest.raises(SparkError, match=r"(?i)data loss|may have been lost|missing"):
        copy.copy_all(given)
    copy.copy_all(given | {"failOnDataLoss": "false"})
    assert copy.copied() == sorted([*(f"{i}" for i in range(10)), "a2", "a3"])
