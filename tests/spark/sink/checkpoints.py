"""A checkpoint as a driver leaves it that dies between its commit and Spark's own note of it."""

from __future__ import annotations

from pathlib import Path


def forget_last_commit(checkpoint: str) -> int:
    """The batch that Spark will replay."""
    commits = Path(checkpoint, "commits")
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last
