"""Breadth-first search over all orders of steps. Each world is visited once, at the least number of
steps that lead to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.exploration.replication.checks import Rulings
from tests.exploration.replication.steps import Step, Steps
from tests.exploration.replication.world import Cluster, World


class Violation(Exception):
    """A world that violates a rule, and the steps that lead to it."""

    def __init__(self, wrong: list[str], path: list[Step]) -> None:
        super().__init__("\n    ".join([*wrong, *map(str, path)]))
        self.wrong, self.path = wrong, path


@dataclass
class Search:
    """A search of at most `depth` steps. `depth_reached`: the number of steps to the worlds that
    are farthest away. `is_whole`: False if the search stopped because it had found `most_worlds`
    worlds. `by_step`: the number of new worlds after each kind of step."""

    cluster: Cluster
    depth: int
    most_worlds: int = 1 << 62
    worlds: int = 0
    steps_taken: int = 0
    depth_reached: int = 0
    is_whole: bool = True
    by_step: Counter[str] = field(default_factory=Counter)

    def run(self, first: World) -> None:
        """Search from a world. Raises Violation at the first violation."""
        steps, rulings = Steps(self.cluster), Rulings(self.cluster)
        # The world before each world, by hashes of 64 bits. With 10^7 worlds, the probability that
        # two of them have the same hash is 3 in a million.
        seen: dict[int, int] = {hash(first): 0}
        level = [first]
        for depth in range(1, self.depth + 1):
            after: list[World] = []
            for world in level:
                key = hash(world)
                for step, found, wrong in steps.of(world):
                    self.steps_taken += 1
                    next_key = hash(found)
                    wrong = (*wrong, *rulings.check_change(world, found))
                    if not wrong:
                        if next_key in seen:
                            continue
                        seen[next_key] = key
                        wrong = (*rulings.check(found),)
                    if wrong:
                        path = _path(steps, seen, first, key)
                        raise Violation(list(wrong), [*path, step])
                    self.by_step[step.name] += 1
                    after.append(found)
                if len(seen) >= self.most_worlds:
                    self.is_whole = False
                    self.worlds = len(seen)
                    return
            if not after:
                break
            level, self.depth_reached = after, depth
        self.worlds = len(seen)


def _path(steps: Steps, seen: dict[int, int], first: World, last: int) -> list[Step]:
    """Return the steps from the first world to the one with the hash `last`."""
    keys = [last]
    while keys[-1] != hash(first):
        keys.append(seen[keys[-1]])
    path, world = [], first
    for key in reversed(keys[:-1]):
        world, step = next((w, s) for s, w, _ in steps.of(world) if hash(w) == key)
        path.append(step)
    return path
