"""Find a shorter list of faults with the same kind of failure."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.simulation.run import Verdict, faults_of, run_seed

# This number of first words identifies the kind of a violation that has no name.
_WORDS = 4


def shrink(failed: Verdict, *, run: Callable[..., Verdict] = run_seed) -> list[int]:
    """Return the numbers of faults that can all be left out together. Without them, the world still
    fails in one of the ways of `failed` (delta debugging with pieces of halving size)."""
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
    """Return the kinds of violations, without the locations and numbers of a single run."""
    return {_kind(violation) for violation in verdict.violations}


def _kind(violation: str) -> str:
    """Return an invariant's number, an anomaly's name, an exception's type, or the first words of a
    sentence."""
    lines = violation.strip().splitlines()
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    invariant = re.search(r"\bI\d+\b", line)
    if invariant is not None:
        return invariant[0]
    words = re.sub(r"[\d'\"]+", "", line.partition(":")[0]).split()
    return " ".join(words[:_WORDS])
