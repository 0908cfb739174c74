"""What the checkpoint of a query tells, where the driver's Python can read it as a file."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

from oncelog_client.spark.source.source_end import of_checkpoint


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
    """Where a batch ends in its sources, as JSON text, from the file `offsets/<batchId>`."""
    text = _read(location, f"offsets/{batch_id}")
    found = None if text is None else of_checkpoint(text)
    return None if found is None else json.dumps(found, separators=(",", ":"))


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
