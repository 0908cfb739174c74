"""Rare states of a cluster, each with a name. A long run must meet each of them."""

from __future__ import annotations

from typing import Final

STATES: Final = (
    "leader elected",
    "leader lost",
    "ISR shrunk",
    "ISR grown",
    "ELR",
    "an exit monitor has ended a registration",
    "group committed",
    "group commit refused: FencedInGroupError",
    "group commit found not done after a crash",
)
