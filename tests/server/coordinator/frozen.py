"""The state of a shard as values. Tests compare the values before and after a call, because a
decide function must not change the state."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache, partial
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from oncelog_server.deferred import Deferred

P = ParamSpec("P")
R = TypeVar("R")

_PLAIN: Final = (str, bytes, int, float, bool, type(None), Enum, type)
# Most values have exactly these types. A frozen container holds them unchanged, without a call of
# `_frozen`.
_MOSTLY: Final = frozenset({str, bytes, int, float, bool, type(None)})

Met: TypeAlias = dict[int, int]
_MISSING: Final = object()


def frozen(value: object) -> object:
    """Return `value` as nested tuples. Parked responses and functions are compared by identity. An
    object that occurs again is replaced by the number of its first occurrence."""
    return _frozen(value, {})


def _frozen(value: object, met: Met) -> object:
    kind: type = type(value)
    freeze = _freezer(kind)
    if freeze is None:
        return value
    number = met.get(id(value))
    if number is not None:
        return number
    met[id(value)] = len(met)
    return freeze(value, met)


@cache
def _freezer(kind: type) -> Callable[[Any, Met], object] | None:
    """Return the function that freezes values of a type, or None if they stay as they
    are."""
    if issubclass(kind, _PLAIN):
        return None
    for base, freeze in _FREEZERS.items():
        if issubclass(kind, base):
            return freeze
    # `hasattr` would be True for every class, because its metaclass has a `__call__`.
    if any("__call__" in vars(base) for base in kind.__mro__):
        return _itself
    if issubclass(kind, Struct):
        return _itself if kind.__struct_config__.frozen else _struct
    return _object


def _itself(value: object, met: Met) -> object:
    return value


def _mapping(value: dict[object, object], met: Met) -> object:
    return tuple(
        [
            (
                key if type(key) in _MOSTLY else _frozen(key, met),
                part if type(part) in _MOSTLY else _frozen(part, met),
            )
            for key, part in value.items()
        ]
    )


def _sequence(value: list[object] | tuple[object, ...], met: Met) -> object:
    return tuple([part if type(part) in _MOSTLY else _frozen(part, met) for part in value])


def _set(value: set[object] | frozenset[object], met: Met) -> object:
    return frozenset([_frozen(part, {}) for part in value])


def _partial(value: partial[object], met: Met) -> object:
    return value.func, _frozen(value.args, met), _frozen(value.keywords, met)


def _deferred(value: Deferred[object], met: Met) -> object:
    return id(value), value.done


def _struct(value: Struct, met: Met) -> object:
    return type(value), _sequence(astuple(value), met)


def _object(value: object, met: Met) -> object:
    kind: type = type(value)
    names = dict.fromkeys((*getattr(value, "__dict__", ()), *_slots(kind)))
    parts = [(name, getattr(value, name, _MISSING)) for name in names]
    return kind, tuple(
        [
            (name, part if type(part) in _MOSTLY else _frozen(part, met))
            for name, part in parts
            if part is not _MISSING
        ]
    )


_FREEZERS: Final[dict[type, Callable[[Any, Met], object]]] = {
    dict: _mapping,
    list: _sequence,
    tuple: _sequence,
    set: _set,
    frozenset: _set,
    partial: _partial,
    Deferred: _deferred,
}


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
