"""Breadth-first search over all reachable states. It visits each state once. States with fewer
steps come first, so the first violation has one of the shortest traces."""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Run the search without garbage collection. The states have no reference cycles, so the
    collector would visit all of them and free none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass
class Search(Generic[S]):
    """`successors` yields the steps from a state with their labels. `check` returns the violations
    in a state.

    `most_states`: the search stops after this number of states.
    """

    successors: Callable[[S], Iterable[tuple[tuple[object, ...], S]]]
    check: Callable[[S], Iterable[str]]
    most_states: int = 4_000_000
    states: int = 0
    steps: int = 0
    seconds: float = 0.0
    violation: str | None = None
    trace: tuple[str, ...] = ()
    _before: dict[S, tuple[S, tuple[object, ...]] | None] = field(default_factory=dict)

    @property
    def is_exhaustive(self) -> bool:
        return self.violation is None and self.states < self.most_states

    def run(self, initial: S) -> Search[S]:
        """Search until all states are visited, a violation is found, or there are too many
        states."""
        begun = time.process_time()
        with _without_garbage_collection():
            self._search(initial)
        self.seconds = time.process_time() - begun
        self._before = {}
        return self

    def _search(self, initial: S) -> None:
        self._before = {initial: None}
        waiting = deque([initial])
        while waiting and self.states < self.most_states:
            state = waiting.popleft()
            self.states += 1
            self.violation = next(iter(self.check(state)), None)
            if self.violation is not None:
                self.trace = self._trace(state)
                break
            for label, after in self.successors(state):
                self.steps += 1
                step = (state, label)
                # The hash of a state takes long. `setdefault` looks up and stores with one hash.
                if self._before.setdefault(after, step) is step:
                    waiting.append(after)

    def _trace(self, state: S) -> tuple[str, ...]:
        labels = []
        step = self._before[state]
        while step is not None:
            state, label = step
            labels.append(" ".join(map(str, label)))
            step = self._before[state]
        return tuple(reversed(labels))

    def __str__(self) -> str:
        whole = "all" if self.is_exhaustive else "the first"
        found = [f"{whole} {self.states:,} states, {self.steps:,} steps, {self.seconds:.0f} s"]
        if self.violation is not None:
            found = [f"{self.violation}, after {self.states:,} states", *self.trace]
        return "\n    ".join(found)
