"""A violation that a checker reports."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """`invariant` is an id of docs/testing.md; `where` a partition or transactional id."""

    invariant: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.where}: {self.what}"
