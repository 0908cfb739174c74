"""The checkpoint of a query, if the driver's Python can read it as files."""

from __future__ import annotations

import json
import logging
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from oncelog_client.spark.offsets.source_end import TwoEnds, of_checkpoint, starts_at_sink

_log: Final = logging.getLogger(__name__)


def query_id(location: str | None) -> str | None:
    """Return the id of the query from the file `metadata`, or None if it cannot be read."""
    text = _read(location, "metadata")
    if text is None:
        return None
    try:
        found = json.loads(text)["id"]
    except (KeyError, TypeError, ValueError):
        return None
    return found if isinstance(found, str) and found else None


def noted_batch(location: str | None) -> int | None:
    """Return the newest batch that the query has begun, by the names of the files in `offsets`.
    Return None if the folder cannot be read or has no such file."""
    folder = None if location is None else _path(location)
    if folder is None:
        return None
    try:
        numbers = [
            int(file.name) for file in (folder / "offsets").iterdir() if file.name.isdecimal()
        ]
    except OSError:
        return None
    return max(numbers, default=None)


def source_end(location: str | None, batch_id: int) -> str | None:
    """Return the source end of a batch, as JSON text, from the file `offsets/<batchId>`. Return
    None if the file cannot be read or has no offsets of this format, or if two sources have read a
    partition to different ends: a query that begins at either end would repeat or lose rows."""
    text = _read(location, f"offsets/{batch_id}")
    try:
        found = None if text is None else of_checkpoint(text)
    except TwoEnds as error:
        _tell_of_two_ends(str(error))
        return None
    return None if found is None else json.dumps(found, separators=(",", ":"))


def sink_starts(location: str | None, sink_id: str) -> tuple[str, ...]:
    """Return the source ends of the sink at which the sources of the query begin
    (`startingOffsets=sink:<sinkId>`), as JSON texts, from the file `offsets/0`. The result is empty
    if the file cannot be read or the sources begin elsewhere. Raises ValueError for a source end
    that no source has written."""
    text = _read(location, "offsets/0")
    found = () if text is None else starts_at_sink(text, sink_id)
    return tuple(json.dumps(end, separators=(",", ":")) for end in found)


@lru_cache
def _tell_of_two_ends(found: str) -> None:
    """Warn that two sources have read a partition to different ends, as `found` says. A process
    warns once for each text."""
    _log.warning(
        "%s: the sink does not store the end of this batch, so startingOffsets=sink:..."
        " cannot start a query at this end",
        found,
    )


def _read(location: str | None, name: str) -> str | None:
    folder = None if location is None else _path(location)
    if folder is None:
        return None
    try:
        return (folder / name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def _path(location: str) -> Path | None:
    """Return the path of a local path or a `file:` URL, None for another file system."""
    parts = urlsplit(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return Path(location) if not parts.scheme else None
