"""Fewer faults, the same kind of failure: what is left of the list tells what happened."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.simulation.run import Verdict, faults_of, run_seed

# A sentence without a name is known by so many of its first words.
_WORDS = 4


def shrink(failed: Verdict, *, run: Callable[..., Verdict] = run_seed) -> list[int]:
    """The numbers of faults that can be left out of a world that failed, all of them together, so
    that it still fails in one of the ways in which it did (delta debugging with pieces of halving
    size)."""
    wanted = kinds_of(failed)
    left = [fault.number for fault in faults_of(failed.seed)]
    without: list[int] = []
    size = max(len(left) // 2, 1)
    while left:
        smaller = False
        for start in range(0, len(left), size):
            tried = left[start : start + size]
            if kinds_of(run(failed.seed, without=[*without, *tried])) & wanted:
                without += tried
                left = [number for number in left if number not in tried]
                smaller = True
                break
        if not smaller:
            if size == 1:
                break
            size = max(size // 2, 1)
    return sorted(without)


def kinds_of(verdict: Verdict) -> set[str]:
    """What has failed, without the places and numbers of one run."""
    return {_kind(violation) for violation in verdict.violations}


def _kind(violation: str) -> str:
    """An invariant's number, an anomaly's name, an exception's type, or how a sentence begins."""
    lines = violation.strip().splitlines()
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    invariant = re.search(r"\bI\d+\b", line)
    if invariant is not None:
        return invariant[0]
    words = re.sub(r"[\d'\"]+", "", line.partition(":")[0]).split()
    return " ".join(words[:_WORDS])
