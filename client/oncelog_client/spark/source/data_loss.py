"""What a query was to read and cannot any more: each with topic, partition and both offsets.

With `failOnDataLoss` (the default) it ends the query, otherwise it is a warning and reading goes on
with what there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oncelog_client.values import TopicPartition

_ADVICE: Final = (
    "failOnDataLoss=false goes on with what there is; to read all of it again, start with a new"
    " checkpoint"
)


class DataLossError(RuntimeError):
    """Records are gone that the query has not read."""


def _named(partition: TopicPartition) -> str:
    return f"topic {partition.topic}, partition {partition.partition}"


def error(losses: Iterable[str]) -> DataLossError:
    """All losses in one error, a line each."""
    return DataLossError("\n".join([*losses, _ADVICE]))


def gone(partition: TopicPartition, start: int, last_end: int | None) -> str:
    """The topic was deleted (or another one, with fewer partitions, has its name)."""
    known = "an end that nobody knows any more" if last_end is None else f"offset {last_end}"
    return (
        f"{_named(partition)} is gone:"
        f" what was there from offset {start} to {known} may not have been read"
    )


def recreated(partition: TopicPartition, start: int, end: int) -> str:
    """The topic was deleted and made anew; nothing of the old one is left."""
    return (
        f"{_named(partition)} was deleted and created again:"
        f" the old one was read up to offset {start}, the new one ends at offset {end}"
    )


def shrunk(partition: TopicPartition, start: int, end: int) -> str:
    """The log ends before the position: created again, or the broker has lost its end."""
    return (
        f"{_named(partition)} was read up to offset {start},"
        f" but ends at offset {end}: was the topic created again?"
    )


def truncated(partition: TopicPartition, start: int, log_start: int) -> str:
    """Retention or DeleteRecords was faster than the query."""
    return (
        f"{_named(partition)}: offset {start} was next,"
        f" but the log begins at offset {log_start} now, {log_start - start} offsets are gone"
    )


def emptied(partition: TopicPartition, start: int, log_start: int) -> str:
    """The log has come to end before an offset that was there when the batch was planned."""
    return (
        f"{_named(partition)}: offset {start} was next,"
        f" but the log, which begins at offset {log_start}, ends before it: was the topic created"
        " again?"
    )


def begun_late(partition: TopicPartition, log_start: int) -> str:
    """A new partition of a topic that is being read, of which something is gone already."""
    return (
        f"{_named(partition)} is new and was to be read from"
        f" offset 0, but the log begins at offset {log_start}"
    )


def ends_early(partition: TopicPartition, wanted: int, end: int) -> str:
    """A range that was decided, or given by an option, goes beyond the log."""
    return f"{_named(partition)} was to be read up to offset {wanted}, but ends at offset {end}"
