"""State as values, to compare before and after: a decide function changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final, ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from oncelog_server.deferred import Deferred

P = ParamSpec("P")
R = TypeVar("R")

_PLAIN: Final = (str, bytes, int, float, bool, type(None), Enum, type)


def frozen(value: object, inside: tuple[int, ...] = ()) -> object:
    """Return `value` with all its parts, by what they hold. A response that is parked is itself, a
    function is itself, and a part that holds itself is cut there."""
    if isinstance(value, _PLAIN) or id(value) in inside:
        return value if isinstance(value, _PLAIN) else id(value)
    inside = (*inside, id(value))
    if isinstance(value, dict):
        return tuple((frozen(key, inside), frozen(part, inside)) for key, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(frozen(part, inside) for part in value)
    if isinstance(value, set | frozenset):
        return frozenset(frozen(part, inside) for part in value)
    if isinstance(value, partial):
        return value.func, frozen(value.args, inside), frozen(value.keywords, inside)
    if isinstance(value, Deferred):
        return id(value), value.done
    if callable(value):
        return value
    if isinstance(value, Struct):
        if value.__struct_config__.frozen:
            return value
        return type(value), tuple(frozen(part, inside) for part in astuple(value))
    names = [*getattr(value, "__dict__", ())]
    for of in type(value).__mro__:
        names += getattr(of, "__slots__", ())
    return type(value), tuple(
        (name, frozen(getattr(value, name), inside))
        for name in dict.fromkeys(names)
        if hasattr(value, name)
    )


def reading(shard: object, decide: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return `decide(…)`, which must leave `shard` as it is."""
    before = frozen(shard)
    try:
        return decide(*args, **kwargs)
    finally:
        assert frozen(shard) == before, f"{decide} has changed the state"
