"""Fewer faults, the same kind of failure: what is left of the list tells what happened."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.run import Verdict, faults_of, run_seed


def shrink(seed: int, *, run: Callable[..., Verdict] = run_seed) -> list[int]:
    """The numbers of faults that can be left out, each alone and together (delta debugging with
    pieces of halving size)."""
    left = [one.number for one in faults_of(seed)]
    without: list[int] = []
    size = max(len(left) // 2, 1)
    while left:
        smaller = False
        for start in range(0, len(left), size):
            tried = left[start : start + size]
            if tried and run(seed, without=[*without, *tried]).failed:
                without += tried
                left = [one for one in left if one not in tried]
                smaller = True
                break
        if not smaller:
            if size == 1:
                break
            size = max(size // 2, 1)
    return sorted(without)
