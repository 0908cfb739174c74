"""The source end of a batch: the end offsets of its sources. A sink keeps it with the committed
batch.

A query that has lost its checkpoint starts at the source end with `startingOffsets=sink:<sinkId>`.
Before a sink commits, it reads the source end from the checkpoint. The sink keeps the source end as
`sourceEnd` in its state: one document for all sources of the query, with an entry for each topic.
If two sources have read the same partition to different ends, there is no common end, and the sink
stores none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from oncelog_client.values import TopicPartition

from .offsets import Offsets, from_json, to_json

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
    lines = text.splitlines()
    if not lines or lines[0].strip() != _VERSION:
        return None
    merged = _merged(lines[_SOURCES_FROM:])
    return to_json(merged) if merged else None


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


def _merged(lines: Sequence[str]) -> Offsets:
    merged: dict[TopicPartition, int] = {}
    for line in lines:
        try:
            found = from_json(json.loads(line)) or {}
        except (TypeError, ValueError):
            continue
        for partition, end in found.items():
            if merged.setdefault(partition, end) != end:
                raise TwoEnds(f"two sources of the query read {partition} to different ends")
    return merged
