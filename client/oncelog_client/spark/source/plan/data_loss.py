"""The messages for records that a query can no longer read, with topic, partition and offsets.

With `failOnDataLoss` (the default) a loss ends the query. Otherwise it is a warning, and the query
reads the remaining records. Only a log that ends before the query's position is read from its end
on, as by Spark's own connector: its existing records are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oncelog_client.values import TopicPartition

_ADVICE: Final = (
    "failOnDataLoss=false reads the remaining records, but skips the existing records of a log that"
    " ends before the query's next offset; to read all records again, start with a new checkpoint"
)


class DataLossError(RuntimeError):
    """Records that the query has not read were deleted."""


def _named(partition: TopicPartition) -> str:
    return f"topic {partition.topic}, partition {partition.partition}"


def error(losses: Iterable[str]) -> DataLossError:
    """Return all losses as one error, with a line for each."""
    return DataLossError("\n".join([*losses, _ADVICE]))


# One function for each kind of loss, although the functions look alike. A caller names the kind,
# and each message needs other offsets.


def gone(partition: TopicPartition, start: int, last_end: int | None) -> str:
    """Return the message for a topic that was deleted, or created again with fewer partitions."""
    known = "an unknown end" if last_end is None else f"offset {last_end}"
    return (
        f"{_named(partition)} is gone:"
        f" the records from offset {start} to {known} may not have been read"
    )


def recreated(partition: TopicPartition, start: int, end: int) -> str:
    """Return the message for a topic that was deleted and created again. No old record is left."""
    return (
        f"{_named(partition)} was deleted and created again:"
        f" the old log was read up to offset {start}, the new log ends at offset {end}"
    )


def replaced(partition: TopicPartition, start: int, end: int) -> str:
    """Return the message for a topic that was deleted and created again after the batch was
    planned."""
    return (
        f"{_named(partition)} was deleted and created again while it was read:"
        f" the records of the old log from offset {start} to {end} may not have been read"
    )


def shrunk(partition: TopicPartition, start: int, end: int) -> str:
    """Return the message for a log that ends before the query's position. The topic was created
    again, or the broker has lost the end of the log. The offsets do not show which, so the query
    continues at the end of the log, and repeats no record."""
    return (
        f"{_named(partition)} was read up to offset {start},"
        f" but ends at offset {end}: was the topic created again? With failOnDataLoss=false the"
        " query skips its existing records"
    )


def truncated(partition: TopicPartition, start: int, log_start: int) -> str:
    """Return the message for records that retention or DeleteRecords has deleted before the query
    has read them."""
    return (
        f"{_named(partition)}: offset {start} was next,"
        f" but the log begins at offset {log_start} now, {log_start - start} offsets are deleted"
    )


def emptied(partition: TopicPartition, start: int, log_start: int) -> str:
    """Return the message for a log that ends before an offset that existed when the batch was
    planned."""
    return (
        f"{_named(partition)}: offset {start} was next,"
        f" but the log, which begins at offset {log_start}, ends before it: was the topic created"
        " again?"
    )


def begun_late(partition: TopicPartition, log_start: int) -> str:
    """Return the message for a new partition that has lost records before the query has read it."""
    return (
        f"{_named(partition)} is new and was to be read from"
        f" offset 0, but the log begins at offset {log_start}"
    )


def ends_early(partition: TopicPartition, wanted: int, end: int) -> str:
    """Return the message for a range, planned or given by an option, that goes beyond the end of
    the log."""
    return f"{_named(partition)} was to be read up to offset {wanted}, but ends at offset {end}"
