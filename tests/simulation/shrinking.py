"""Finds a shorter list of faults with which a seed of the simulation fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.simulation.fault import Fault
from tests.simulation.run import Verdict, faults_of, run_seed

# The first words of a violation are its kind if the violation has no name. This is their number.
_WORDS = 4


def shrink(
    failed: Verdict,
    *,
    run: Callable[..., Verdict] = run_seed,
    faults_of: Callable[[int], list[Fault]] = faults_of,
) -> list[int]:
    """Return the numbers of the faults that the failure does not need. If all of them are left out,
    the seed still fails in one of the ways of `failed`. The search is delta debugging: it leaves
    out pieces of the list, and halves the size of the pieces."""
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
    """Return the kind of a violation: the number of an invariant, the name of an anomaly, the type
    of an exception, or the first words of a sentence."""
    lines = violation.strip().splitlines()
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    invariant = re.search(r"\bI\d+\b", line)
    if invariant is not None:
        return invariant[0]
    words = re.sub(r"[\d'\"]+", "", line.partition(":")[0]).split()
    return " ".join(words[:_WORDS])
