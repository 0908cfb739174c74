"""Rare states that the swarm must meet, each by a name: one that is never met says that the swarm
does not look there any more."""

from __future__ import annotations

from collections import Counter


class Sometimes:
    """`met(name)` in passing."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def met(self, name: str, times: int = 1) -> None:
        if times > 0:
            self.counts[name] += times
