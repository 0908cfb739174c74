"""Shrinking leaves only the faults that the failure needs."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from tests.simulation.run import Verdict, faults_of
from tests.simulation.shrinking import kinds_of, shrink

# A seed with enough faults for several different failures.
SEED = next(seed for seed in range(1_000) if len(faults_of(seed)) >= 8)
FAULTS = [fault.number for fault in faults_of(SEED)]
Run = Callable[..., Verdict]


def failing(rule: Callable[[set[int]], list[str]]) -> Run:
    """Return a fake of `run_seed`. `rule` returns the violations for the faults that are not left
    out."""

    def run(seed: int, *, without: Collection[int] = ()) -> Verdict:
        return Verdict(seed, violations=rule(set(FAULTS) - set(without)))

    return run


def left_by(run: Run) -> list[int]:
    without = shrink(run(SEED), run=run)
    return [number for number in FAULTS if number not in without]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_only_the_faults_that_fail_together_are_left(count: int) -> None:
    needed = FAULTS[1 :: len(FAULTS) // count][:count]
    assert left_by(failing(lambda left: ["I3 in-0: gap"] * left.issuperset(needed))) == needed


def test_no_fault_is_left_if_the_failure_needs_none() -> None:
    assert left_by(failing(lambda left: ["I3 in-0: gap"])) == []


def test_a_different_failure_does_not_count() -> None:
    """Without the needed fault the world fails too, but in a different way."""
    needed = FAULTS[2]
    run = failing(lambda left: ["I3 in-0: gap at 7" if needed in left else "I9 in-1: lost 3"])
    assert left_by(run) == [needed]


def test_a_fault_is_left_out_if_one_of_several_failures_remains() -> None:
    needed = FAULTS[2]
    run = failing(lambda left: ["I3 in-0: gap", *["I9 in-1: lost"] * (needed in left)])
    assert left_by(run) == []


@pytest.mark.parametrize(
    ("kind", "like_it", "another"),
    [
        ("I9 in-0: 17 is lost", "I9 out-2: 3 is lost", "I3 in-0: 17 is lost"),
        ("after a start: I12 txn-3: x", "I12 txn-1: y", "after a start: I15 txn-3: x"),
        ("G1a: w7 saw 3", "G1a: w9 saw 5", "G1b: w7 saw 3"),
        ("clients do not end: a-1", "clients do not end: b-7, c", "broker-1 leaves tasks: a"),
        (
            "Traceback (most recent call last):\n  File x\nValueError: 7",
            "Traceback (most recent call last):\n  File y\nValueError: 8",
            "Traceback (most recent call last):\n  File x\nKeyError: 7",
        ),
    ],
)
def test_violations_of_one_kind_differ_only_in_places_and_numbers(
    kind: str, like_it: str, another: str
) -> None:
    kinds = [kinds_of(Verdict(SEED, violations=[each])) for each in (kind, like_it, another)]
    assert kinds[0] == kinds[1] != kinds[2]
