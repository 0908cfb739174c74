"""What the checkpoint of a query tells, where the driver's Python can read it as a file."""

from __future__ import annotations

import json
import logging
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from oncelog_client.spark.source.source_end import TwoEnds, of_checkpoint

_log: Final = logging.getLogger(__name__)


def query_id(location: str | None) -> str | None:
    """The id of the query, from the file `metadata`; None where it cannot be read."""
    text = _read(location, "metadata")
    if text is None:
        return None
    try:
        found = json.loads(text)["id"]
    except (KeyError, TypeError, ValueError):
        return None
    return found if isinstance(found, str) and found else None


def noted_batch(location: str | None) -> int | None:
    """The newest batch that the query has begun, by its files in `offsets`; None where they cannot
    be read."""
    folder = None if location is None else _path(location)
    if folder is None:
        return None
    try:
        numbers = [int(one.name) for one in (folder / "offsets").iterdir() if one.name.isdecimal()]
    except OSError:
        return None
    return max(numbers, default=None)


def source_end(location: str | None, batch_id: int) -> str | None:
    """Where a batch ends in its sources, as JSON text, from the file `offsets/<batchId>`. None
    where it cannot be read, or where two sources have read a partition to different ends: to begin
    a query at one of them would double rows or lose some."""
    text = _read(location, f"offsets/{batch_id}")
    try:
        found = None if text is None else of_checkpoint(text)
    except TwoEnds as error:
        _tell_of_two_ends(str(error))
        return None
    return None if found is None else json.dumps(found, separators=(",", ":"))


@lru_cache
def _tell_of_two_ends(found: str) -> None:
    """Once a process."""
    _log.warning(
        "%s: where the batch ended is not kept with the sink, so that startingOffsets=sink:..."
        " cannot go on from there",
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
    """A local path, or a URL with the scheme `file`; None for another file system."""
    parts = urlsplit(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return Path(location) if not parts.scheme else None
