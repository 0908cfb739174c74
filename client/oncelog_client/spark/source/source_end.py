"""Where a batch ended in its sources, as a sink keeps it with the batch that it has committed.

A query whose checkpoint is lost goes on from there with `startingOffsets=sink:<sinkId>`. The sink
reads it from the checkpoint before it commits, and keeps it as `sourceEnd` with its state; all
sources of the query in one, as each topic has its own entry. Where two sources read the same
partition, and not equally far, there is no one place to go on from, and nothing is kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from oncelog_client.values import TopicPartition

from .offsets import Offsets, from_json, to_json

# `offsets/<batchId>` of a checkpoint: the version, the batch's own data, an offset per source.
_VERSION: Final = "v1"
_SOURCES_FROM: Final = 2


class TwoEnds(ValueError):
    """Two sources of a query have read one partition to different ends."""


class NoSourceEnd(ValueError):
    """A sink has not kept where its last batch ended in the sources."""


def of_checkpoint(text: str) -> dict[str, Any] | None:
    """From the file `offsets/<batchId>`; None where no source has offsets as ours. Raises
    TwoEnds."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != _VERSION:
        return None
    merged = _merged(lines[_SOURCES_FROM:])
    return to_json(merged) if merged else None


def too_long(sink_id: str, most_bytes: int) -> NoSourceEnd:
    """It was known, and there was no room to keep it."""
    return NoSourceEnd(
        f"sink {sink_id} has committed, but not kept where its sources ended: for so many"
        f" partitions that is longer than the {most_bytes} bytes that a broker keeps with it."
        " Give the offsets themselves in startingOffsets"
    )


def of_sink(sink_id: str, kept: str | None) -> Offsets:
    """From what a sink has kept, as JSON text. Raises NoSourceEnd."""
    try:
        found = None if kept is None else from_json(json.loads(kept))
    except (AttributeError, TypeError, ValueError):
        found = None
    if not found:
        raise NoSourceEnd(
            f"sink {sink_id} has committed, but not kept where its sources ended: that takes a"
            " checkpointLocation that the driver's Python can read as a file, and no two sources"
            " that read one partition to different ends"
        )
    return found


def _merged(lines: Sequence[str]) -> Offsets:
    merged: dict[TopicPartition, int] = {}
    for line in lines:
        try:
            found = from_json(json.loads(line)) or {}
        except (TypeError, ValueError):
            continue
        for one, end in found.items():
            if merged.setdefault(one, end) != end:
                raise TwoEnds(f"two sources of the query read {one}, and not equally far")
    return merged
