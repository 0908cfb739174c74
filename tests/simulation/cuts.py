"""The cuts of a simulated network: directions between hosts in which no byte arrives."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple


class Cut(NamedTuple):
    """No byte of a host in `sources` arrives at a host in `targets`. None stands for every host."""

    sources: frozenset[str] | None
    targets: frozenset[str] | None

    def has(self, source: str, target: str) -> bool:
        return (self.sources is None or source in self.sources) and (
            self.targets is None or target in self.targets
        )


def both_ways(some: Collection[str], others: Collection[str] | None) -> list[Cut]:
    """Return the cuts of both directions between some hosts and others. None stands for all
    others."""
    ends = frozenset(some), None if others is None else frozenset(others)
    return [Cut(*ends), Cut(ends[1], ends[0])]


class Cuts:
    """The present cuts. `changed` is called after each change. Bytes that are sent in a cut
    direction arrive when the direction is restored, as TCP sends them again."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._present: list[Cut] = []
        self._changed = changed

    def has(self, source: str, target: str) -> bool:
        """Return True if no byte arrives. Bytes from a host to itself always arrive."""
        return source != target and any(cut.has(source, target) for cut in self._present)

    def add(self, cuts: Collection[Cut]) -> None:
        self._present += cuts
        self._changed()

    def remove(self, cuts: Collection[Cut]) -> None:
        """Remove these cuts, which `add` has added, unless `clear` has removed them."""
        for cut in cuts:
            if cut in self._present:
                self._present.remove(cut)
        self._changed()

    def clear(self) -> None:
        self._present.clear()
        self._changed()
