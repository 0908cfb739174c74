"""A defect as a textual patch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class StalePatch(Exception):
    """The file does not have the text to replace, or has it more than once."""


class Mutant(NamedTuple):
    """`file` must have `old` exactly once. `tests`: the tests that should find the defect, the
    fastest first."""

    name: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def mutated(self, root: Path) -> str:
        """Return the file's text with the defect. Raises StalePatch."""
        text = (root / self.file).read_text(encoding="utf-8")
        count = text.count(self.old)
        if count != 1:
            raise StalePatch(f"{self.name}: {count} times in {self.file}: {self.old!r}")
        return text.replace(self.old, self.new)
