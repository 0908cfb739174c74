"""A checkpoint without Spark's record of the last commit, as if the driver had died before it wrote
this record."""

from __future__ import annotations

from pathlib import Path


def forget_last_commit(checkpoint: str) -> int:
    """Delete the record of the last commit. Return the batch that Spark will repeat."""
    commits = Path(checkpoint, "commits")
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last
