"""Depth-first search over all orders of steps. It visits a state again only if more steps are left
than at the earlier visit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.exploration.checks import Endings, check
from tests.exploration.steps import Step, steps, take
from tests.exploration.world_model import WorldModel


@dataclass
class Exploration:
    """A search of at most `depth` steps and `most_states` states. `ends`: the number of states that
    were reached with the last step. `Endings` continues each of them and checks the result.
    `violations` has the steps that lead to each violation."""

    depth: int
    most_states: int
    states: int = 0
    steps_taken: int = 0
    ends: int = 0
    by_step: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[str, tuple[Step, ...]]] = field(default_factory=list)
    # For each state, the number of steps that were left at its visit.
    _seen: dict[int, int] = field(default_factory=dict)
    _endings: Endings = field(default_factory=Endings)

    def run(self, world: WorldModel) -> None:
        """Explore the states that `world` can reach within the limits. Stop at a violation."""
        self._seen[world.key()] = self.depth
        self.states += 1
        self._explore(world, ())

    @property
    def is_complete(self) -> bool:
        return not self.violations and self.states < self.most_states

    def forget(self) -> None:
        """Free the memory of visited states. Keep the counts."""
        self._seen.clear()
        self._endings = Endings()

    def _explore(self, world: WorldModel, path: tuple[Step, ...]) -> None:
        left = self.depth - len(path) - 1
        for step in steps(world):
            if not self.is_complete:
                return
            after = world.clone()
            take(after, step)
            self.steps_taken += 1
            key = after.key()
            before = self._seen.get(key, -1)
            if before >= left and not after.violations:
                continue
            self._seen[key] = left
            if before < 0:
                self.states += 1
                self.by_step[step.name] += 1
                self._judge(after, (*path, step), is_end=left == 0)
            if left:
                self._explore(after, (*path, step))

    def _judge(self, world: WorldModel, path: tuple[Step, ...], *, is_end: bool) -> None:
        found = list(check(world))
        if is_end and not found:
            self.ends += 1
            found = [f"{wrong}, in the end" for wrong in self._endings.check(world)]
        self.violations += [(wrong, path) for wrong in found]
