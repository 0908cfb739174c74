"""The progress of a micro-batch by partition, from Spark's report: offsets, lag and rate.
`progress_line` returns the progress as a line for a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from oncelog_client.values import TopicPartition

from .offsets import carried_start, from_json

ANONYMOUS: Final = "query"


class PartitionProgress(NamedTuple):
    """One partition in one micro-batch that read the offsets [`start`, `end`). `latest` is the end
    of the partition at that time. `latest` is None if Spark did not request it, as for a repeated
    batch. `seconds` is the duration of the whole batch. The numbers of offsets include markers and
    aborted records."""

    topic: str
    partition: int
    start: int
    end: int
    latest: int | None
    seconds: float

    @property
    def lag(self) -> int | None:
        """The number of existing offsets that were not read yet. None if unknown."""
        return None if self.latest is None else max(self.latest - self.end, 0)

    @property
    def rate(self) -> float:
        """The partition's offsets a second, over the duration of the whole micro-batch, or 0 for a
        micro-batch without a duration."""
        return (self.end - self.start) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One micro-batch of a query, with the partitions of all its oncelog and Kafka sources.

    `seconds` is its duration, from the request for new offsets to the entry in the commit log.
    """

    query: str
    batch_id: int
    rows: int
    seconds: float
    partitions: tuple[PartitionProgress, ...]

    @property
    def lags(self) -> tuple[int, ...]:
        """The known lags, in the order of `partitions`."""
        return tuple(partition.lag for partition in self.partitions if partition.lag is not None)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    def metrics(self) -> dict[str, str]:
        """Return the metrics that Spark's own Kafka connector has in `sources[].metrics`, under the
        same names. The result is empty if no lag is known."""
        if not self.lags:
            return {}
        return {
            "minOffsetsBehindLatest": str(min(self.lags)),
            "maxOffsetsBehindLatest": str(max(self.lags)),
            "avgOffsetsBehindLatest": str(sum(self.lags) / len(self.lags)),
        }


def batch_progress(progress: Mapping[str, Any]) -> BatchProgress:
    """Read the JSON of a StreamingQueryProgress. Sources of other formats have no partitions."""
    seconds = progress.get("durationMs", {}).get("triggerExecution", 0) / 1000
    partitions = [
        partition
        for source in progress["sources"]
        for partition in _partitions(source, float(seconds))
    ]
    return BatchProgress(
        query=progress.get("name") or ANONYMOUS,
        batch_id=progress["batchId"],
        rows=progress["numInputRows"],
        seconds=seconds,
        partitions=tuple(sorted(partitions)),
    )


def progress_line(batch: BatchProgress) -> str:
    """Return query, batch, rows, rows a second, time, lag, and the partition with most lag."""
    line = (
        f"{batch.query}: batch {batch.batch_id}, {batch.rows:,} rows"
        f" in {batch.seconds:.2f} s ({batch.rows_per_second:,.0f}/s)"
    )
    if not batch.lags:
        return line
    most, worst = max((partition.lag or 0, partition) for partition in batch.partitions)
    if not most:
        return f"{line}, lag 0"
    return f"{line}, lag {sum(batch.lags):,}, most in {worst.topic}-{worst.partition}: {most:,}"


def _partitions(source: Mapping[str, Any], seconds: float) -> list[PartitionProgress]:
    ends = _offsets(source.get("endOffset"))
    starts = _offsets(source.get("startOffset")) or _offsets(source.get("endOffset"), carried_start)
    latest = _offsets(source.get("latestOffset"))
    # A partition that was created after the plan of the batch is only in `latest`.
    return [
        PartitionProgress(
            *end,
            start=starts.get(end, ends.get(end, 0)),
            end=ends.get(end, 0),
            latest=latest.get(end),
            seconds=seconds,
        )
        for end in ends | latest
    ]


def _offsets(
    text: str | Mapping[str, Any] | None,
    read: Callable[[Mapping[str, Any]], dict[TopicPartition, int] | None] = from_json,
) -> dict[TopicPartition, int]:
    """Return offsets by partition. The result is empty if `text` is another format's offset, or the
    start of a query, which has no offsets yet."""
    try:
        document = json.loads(text) if isinstance(text, str) else text
        return (read(document) if isinstance(document, Mapping) else None) or {}
    except ValueError:
        return {}
