"""A violation that a checker reports."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """`invariant`: an id in docs/testing.md. `where`: a partition or a transactional id."""

    invariant: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.where}: {self.what}"
