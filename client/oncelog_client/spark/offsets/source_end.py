"""The source end of a batch: the end offsets of its sources. A sink keeps it with the committed
batch.

A query that has lost its checkpoint starts at the source end with `startingOffsets=sink:<sinkId>`.
Before a sink commits, it reads the source end from the checkpoint. The sink keeps the source end as
`sourceEnd` in its state: one document for all sources of the query, with an entry for each topic.
If two sources have read the same partition to different ends, there is no common end, and the sink
stores none.

The first offset of such a query contains the source end at which it has begun. The sink compares
this end with its state when the query takes it over, because the older query may have committed
another batch in between.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from oncelog_client.values import TopicPartition

from .offsets import Offsets, carried_sink_end, from_json, to_json

# The lines of a checkpoint's file `offsets/<batchId>`: the version, the metadata of the batch, and
# an offset for each source.
_VERSION: Final = "v1"
_SOURCES_FROM: Final = 2


class TwoEnds(ValueError):
    """Two sources of a query have read one partition to different ends."""


class NoSourceEnd(ValueError):
    """A sink has no source end for its last batch."""


def of_checkpoint(text: str) -> dict[str, Any] | None:
    """Return the source end in the text of the file `offsets/<batchId>`. Return None if no source
    is of the format `oncelog`, or the file has another version. Raises TwoEnds."""
    merged = _merged(_documents(text))
    return to_json(merged) if merged else None


def starts_at_sink(text: str, sink_id: str) -> tuple[dict[str, Any], ...]:
    """Return the source ends of the sink at which the sources of a query begin
    (`startingOffsets=sink:<sinkId>`), from the text of the file `offsets/0`. The result has no end
    for a source with another start. Raises ValueError for an end that no source has written."""
    ends = (carried_sink_end(document, sink_id) for document in _documents(text))
    return tuple(to_json(end) for end in ends if end is not None)


def too_long(sink_id: str, most_bytes: int) -> NoSourceEnd:
    """Return the error for a source end that was too long to keep."""
    return NoSourceEnd(
        f"sink {sink_id} has committed, but has not stored the offsets at which its sources ended:"
        f" the offsets of all partitions need more than the {most_bytes} bytes that a broker stores"
        " with a group's offset. Give the offsets themselves in startingOffsets"
    )


def of_sink(sink_id: str, kept: str | None) -> Offsets:
    """Return the offsets in the JSON text that a sink has kept. Raises NoSourceEnd."""
    try:
        found = None if kept is None else from_json(json.loads(kept))
    except (AttributeError, TypeError, ValueError):
        found = None
    if not found:
        raise NoSourceEnd(
            f"sink {sink_id} has stored no offsets at which its sources ended. A sink stores them"
            " when it commits a batch, but only if the driver's Python can read checkpointLocation"
            " as files, and no two sources have read one partition to different ends"
        )
    return found


def _documents(text: str) -> list[dict[str, Any]]:
    """Return the offsets of the sources in the text of the file `offsets/<batchId>`. A source
    without an offset has the line "-". The result is empty for another version of the file."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != _VERSION:
        return []
    documents: list[dict[str, Any]] = []
    for line in lines[_SOURCES_FROM:]:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            documents.append(found)
    return documents


def _merged(documents: Iterable[dict[str, Any]]) -> Offsets:
    merged: dict[TopicPartition, int] = {}
    for document in documents:
        try:
            found = from_json(document) or {}
        except ValueError:
            # The offset of a source of another format.
            continue
        for partition, end in found.items():
            if merged.setdefault(partition, end) != end:
                raise TwoEnds(f"two sources of the query read {partition} to different ends")
    return merged
