"""The check that a decision only reads the state finds each kind of change."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from oncelog_server.deferred import Deferred
from tests.server.coordinator.frozen import frozen, reading


class Slotted:
    __slots__ = ("later", "value")

    def __init__(self) -> None:
        self.value = 1


class Row(msgspec.Struct):
    parts: list[int]


class State:
    """One attribute of each kind that a shard has."""

    def __init__(self) -> None:
        self.number = 1
        self.mapping = {"a": {"b": 1}}
        self.sequence = [1, (2, [3])]
        self.names = {"a"}
        self.slotted = Slotted()
        self.row = Row([1])
        self.callback = partial(print, [1])
        self.parked: Deferred[int] = Deferred()
        self.same = self.sequence


CHANGES: dict[str, Callable[[Any], object]] = {
    "attribute": lambda state: setattr(state, "number", 2),
    "new attribute": lambda state: setattr(state, "other", None),
    "mapping": lambda state: state.mapping["a"].update(b=2),
    "new key": lambda state: state.mapping.update(z=1),
    "sequence": lambda state: state.sequence[1][1].append(4),
    "set": lambda state: state.names.add("b"),
    "slot": lambda state: setattr(state.slotted, "value", 2),
    "empty slot": lambda state: setattr(state.slotted, "later", None),
    "struct": lambda state: state.row.parts.append(2),
    "argument of a partial": lambda state: state.callback.args[0].append(2),
    "deferred": lambda state: state.parked.complete(1),
    "another function": lambda state: setattr(state, "callback", len),
    "equal object instead of the same object": lambda state: setattr(state, "same", [1, (2, [3])]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_the_state_is_found(change: Callable[[Any], object]) -> None:
    with pytest.raises(AssertionError, match="has changed the state"):
        reading(state := State(), change, state)


def test_a_state_without_a_change_is_equal() -> None:
    state = State()
    assert frozen(state) == frozen(state)
    assert reading(state, lambda: state.number) == 1
