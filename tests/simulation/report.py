"""Printed reports: of a failed seed, and of a whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from tests.simulation.run import Verdict


@dataclass(slots=True)
class Figures:
    """Sums over the seeds of a run. Each seed is one simulated world."""

    seeds: int = 0
    vacuous: int = 0
    transactions: int = 0
    # The smallest number of transactions in a world, or None before the first world.
    fewest: int | None = None
    committed: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    inflicted: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict) -> None:
        self.seeds += 1
        self.transactions += verdict.transactions
        if self.fewest is None or verdict.transactions < self.fewest:
            self.fewest = verdict.transactions
        self.committed += verdict.committed
        self.simulated_s += verdict.simulated_s
        self.cpu_s += verdict.seconds
        self.slowest_s = max(self.slowest_s, verdict.seconds)
        self.inflicted += verdict.inflicted
        self.met.update(verdict.met.keys())
        self.vacuous += verdict.is_vacuous

    def lines(self) -> Iterator[str]:
        seeds = max(self.seeds, 1)
        yield f"seeds                 {self.seeds:,} ({self.vacuous} of them with few commits)"
        each = f"{self.transactions / seeds:.0f} a seed, {self.fewest or 0} at least"
        yield f"transactions checked  {self.transactions:,} ({each})"
        yield f"  of them committed   {self.committed:,}"
        yield f"simulated             {self.simulated_s / 3600:.2f} hours"
        yield (
            f"CPU                   {self.cpu_s / seeds:.2f} s a seed, the slowest "
            f"{self.slowest_s:.1f} s, {self.cpu_s / 60:.1f} min in all"
        )
        kinds = f"{len(self.inflicted)} kinds"
        yield f"faults injected       {sum(self.inflicted.values()):,} of {kinds}"
        for kind, count in sorted(self.inflicted.items()):
            yield f"  {count:>9,}  {kind}"
        yield f"rare states met       {len(self.met)}, each with its number of seeds:"
        for name, count in sorted(self.met.items()):
            yield f"  {count:>9,}  {name}"


def failure_lines(
    verdict: Verdict, without: Collection[int] = (), option: str = ""
) -> Iterator[str]:
    """Yield the lines of a failed seed. `option`: the option of its kind of world."""
    yield f"seed {verdict.seed} FAILED"
    yield verdict.options
    yield "faults:"
    yield from (f"  {fault}" for fault in verdict.faults)
    yield "the broker's last events:"
    yield from (f"  {event}" for event in verdict.events[-25:])
    shown = verdict.violations[:8]
    yield f"{len(verdict.violations)} violations:"
    yield from (f"  {_cut(violation)}" for violation in shown)
    left_out = f" --without {','.join(map(str, without))}" if without else ""
    yield f"again: .venv/bin/python -m tests.simulation{option} --seed {verdict.seed}{left_out}"


def one_line(verdict: Verdict) -> str:
    return (
        f"seed {verdict.seed}: trace {verdict.trace:012x}, {verdict.transactions} transactions, "
        f"{verdict.committed} committed, {verdict.steps} steps in {verdict.simulated_s:.1f} "
        f"simulated seconds, {verdict.seconds:.2f} s of CPU"
    )


def lines_of(texts: Iterable[str]) -> str:
    return "\n".join(texts)


def _cut(text: str, most: int = 3_000) -> str:
    return text if len(text) <= most else f"{text[: most // 3]} ... {text[-most * 2 // 3 :]}"
