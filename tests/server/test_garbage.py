"""Garbage collections are short, because they skip long-lived objects. Objects that a broker
creates often are freed without a collection."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from oncelog_server.deferred import Deferred, gather, pass_on, then, then_ask

ALIVE = 1_000_000
# Maximum number of living objects that a collection may examine.
LOOKED_AT = ALIVE // 2

GROWS = f"""
import gc

from oncelog_server.garbage import collect_in_short_stops

collect_in_short_stops()
most = 0


def look(phase, info):
    global most
    if phase == "start" and info["generation"] == 2:
        most = max(most, len(gc.get_objects(generation=2)))


gc.callbacks.insert(0, look)
alive = []
for number in range({ALIVE}):
    alive.append([number])
for number in range({ALIVE // 4}):  # short-lived objects beside many long-lived ones
    passing = [[] for _ in range(8)]
print(most)
"""


def test_a_collection_does_not_examine_all_living_objects() -> None:
    command = [sys.executable, "-c", GROWS]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert 0 < int(ended.stdout) < LOOKED_AT


class Answer:
    """The value of a response. The tests check when it is freed."""


@pytest.fixture
def no_collection() -> Any:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _given(wait: Callable[[Deferred[Any]], object]) -> weakref.ref[Answer]:
    """Complete a response that `wait` waits for. Return a weak reference to its value."""
    deferred: Deferred[Any] = Deferred()
    later = wait(deferred)
    answer = Answer()
    deferred.complete(answer)
    if isinstance(later, Deferred):
        assert later.done
    return weakref.ref(answer)


def _passed_on(deferred: Deferred[Any]) -> Deferred[Any]:
    later: Deferred[Any] = Deferred()
    pass_on(deferred, later)
    return later


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    "wait",
    [
        lambda deferred: then(deferred, lambda value: value),
        lambda deferred: then_ask(deferred, lambda value: value),
        lambda deferred: gather([deferred]),
        _passed_on,
    ],
    ids=["then", "then_ask", "gather", "pass_on"],
)
def test_a_completed_response_is_freed_with_the_last_reference(
    wait: Callable[[Deferred[Any]], object],
) -> None:
    assert _given(wait)() is None


@pytest.mark.usefixtures("no_collection")
def test_the_wait_for_an_abandoned_response_is_freed_with_the_last_reference() -> None:
    gone = _given_up()
    assert gone() is None


def _given_up() -> weakref.ref[Answer]:
    deferred: Deferred[Any] = Deferred()
    held = Answer()
    deferred.on_abandon(lambda: [deferred, held].clear())
    deferred.cancel()
    return weakref.ref(held)
