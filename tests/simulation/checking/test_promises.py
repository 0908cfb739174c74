"""The checker finds a response that contradicts the logs."""

from __future__ import annotations

import pytest

from tests.simulation.checking.promises import Appended, Ended, Promises
from tests.simulation.checking.test_invariants import PRODUCER, A, B, begun, ended


def test_i9_an_acknowledged_append_or_commit_that_the_log_lacks_is_found() -> None:
    promises = Promises()
    promises.appended.append(Appended(A, *PRODUCER, 0, 0))
    promises.registered.append(("t", *PRODUCER, A))
    logs = begun(A).partitions()
    assert promises.check(logs) == []
    promises.ended.append(Ended("t", *PRODUCER, True))
    assert [violation.invariant for violation in promises.check(logs)] == ["I9"]
    promises.forget()
    promises.appended.append(Appended(A, *PRODUCER, 1, 1))
    promises.registered.append(("t", *PRODUCER, B))
    assert [violation.invariant for violation in promises.check(logs)] == ["I9", "I9"]


@pytest.mark.parametrize("committed", [True, False])
def test_i7_an_outcome_that_contradicts_the_log_is_found(committed: bool) -> None:
    logs = ended(begun(A), A, committed=committed).partitions()
    promises = Promises(ended=[Ended("t", *PRODUCER, committed)])
    assert promises.check(logs) == []
    promises.ended.append(Ended("t", *PRODUCER, not committed))
    assert [violation.invariant for violation in promises.check(logs)] == ["I7"]


def test_i10_an_epoch_that_two_instances_get_is_found() -> None:
    promises = Promises()
    promises.hands(7, 0, "first")
    promises.hands(7, 0, "first")
    assert promises.check({}) == []
    promises.hands(7, 0, "second")
    promises.hands(7, 32767, "third")
    assert [violation.invariant for violation in promises.check({})] == ["I10", "I10"]
