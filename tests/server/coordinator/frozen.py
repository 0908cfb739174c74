"""The state of a shard as values. Tests compare the values before and after a call, because a
decide function must not change the state."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache, partial
from typing import Final, ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from oncelog_server.deferred import Deferred

P = ParamSpec("P")
R = TypeVar("R")

_PLAIN: Final = (str, bytes, int, float, bool, type(None), Enum, type)
# Most values are of exactly these types: `isinstance` with Enum and type takes longer.
_MOSTLY: Final = frozenset({str, bytes, int, float, bool, type(None)})


def frozen(value: object) -> object:
    """Return `value` as nested tuples. Parked responses and functions are compared by identity. An
    object that occurs again is replaced by the number of its first occurrence."""
    return _frozen(value, {})


def _frozen(value: object, met: dict[int, int]) -> object:
    if type(value) in _MOSTLY or isinstance(value, _PLAIN):
        return value
    number = met.get(id(value))
    if number is not None:
        return number
    met[id(value)] = len(met)
    if isinstance(value, dict):
        return tuple((_frozen(key, met), _frozen(part, met)) for key, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(_frozen(part, met) for part in value)
    if isinstance(value, set | frozenset):
        return frozenset(_frozen(part, {}) for part in value)
    if isinstance(value, partial):
        return value.func, _frozen(value.args, met), _frozen(value.keywords, met)
    if isinstance(value, Deferred):
        return id(value), value.done
    if callable(value):
        return value
    if isinstance(value, Struct):
        if value.__struct_config__.frozen:
            return value
        return type(value), tuple(_frozen(part, met) for part in astuple(value))
    kind: type = type(value)
    names = dict.fromkeys((*getattr(value, "__dict__", ()), *_slots(kind)))
    return kind, tuple(
        (name, _frozen(getattr(value, name), met)) for name in names if hasattr(value, name)
    )


@cache
def _slots(kind: type) -> tuple[str, ...]:
    return tuple(name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))


def reading(shard: object, decide: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return `decide(…)`, and check that it did not change `shard`."""
    before = frozen(shard)
    try:
        return decide(*args, **kwargs)
    finally:
        assert frozen(shard) == before, f"{decide} has changed the state"
