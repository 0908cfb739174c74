"""The rounds of several brokers: each warms up, then they take turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from benchmarks.bench import Cores, Figures, Round
from benchmarks.table import agree

Say = Callable[[str], None]


def take_turns(turns: Mapping[str, Round], rounds: int, cores: Cores) -> dict[str, list[Figures]]:
    """Run the rounds. The first broker in one round is the last in the next, so that a drift of the
    computer affects all brokers."""
    found: dict[str, list[Figures]] = {name: [] for name in turns}
    for number in range(rounds):
        for name in turns if number % 2 == 0 else reversed([*turns]):
            found[name].append(turns[name](cores))
    return found


def warm(say: Say, what: str, turn: Round, cores: Cores, limit_s: float) -> None:
    """Repeat the load until three rounds agree, or until `limit_s` has passed."""
    values: list[float] = []
    spent = 0.0
    while spent < limit_s and not agree(values):
        begin = time.monotonic()
        values.append(next(iter(turn(cores).values())))
        spent += time.monotonic() - begin
    if values:
        say(f"{what}: warm after {spent:.0f} s: {' '.join(f'{value:,.0f}' for value in values)}")


def paces(rounds: list[Figures]) -> str:
    """Return the first figure of each round as text."""
    return " ".join(f"{next(iter(figures.values())):,.0f}" for figures in rounds)
