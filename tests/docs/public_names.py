"""The public names of the Python API: the names of `oncelog`, `oncelog.testing` and some modules of
the client, and the methods of their classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Final, NamedTuple

MODULES: Final = (
    "oncelog",
    "oncelog_client.admin",
    "oncelog_client.serialization",
    "oncelog_client.sync",
    "oncelog_client.otel",
    "oncelog.testing",
)
# Values, which have no docstring. The page describes each.
VALUES: Final = frozenset(
    {
        "oncelog.Header",
        "oncelog.__version__",
        "oncelog.testing.QUICK",
        "oncelog_client.admin.OffsetSpec",
    }
)
_METHODS: Final = (classmethod, staticmethod, property)


class Name(NamedTuple):
    """A public name as a reader imports it, such as `oncelog.Producer.send`, and its docstring."""

    full: str
    docstring: str | None


def public_names() -> list[Name]:
    """Return the classes and functions of the modules, each with its first name, and the methods
    and properties of classes that no other public class documents."""
    values: dict[str, object] = {}
    for module in MODULES:
        earlier = {id(value) for value in values.values()}
        for name, value in _public(module).items():
            if id(value) not in earlier:
                values[f"{module}.{name}"] = value
    classes = {value for value in values.values() if inspect.isclass(value)}
    found = []
    for full, value in values.items():
        if full not in VALUES:
            found.append(Name(full, value.__doc__))
        if inspect.isclass(value):
            found += [Name(f"{full}.{name}", text) for name, text in _methods(value, classes)]
    return found


def _public(module: str) -> dict[str, object]:
    """Return the names in `__all__`, or those that a module without `__all__` defines."""
    loaded = import_module(module)
    if hasattr(loaded, "__all__"):
        return {name: getattr(loaded, name) for name in loaded.__all__}
    return {
        name: value
        for name, value in vars(loaded).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    }


def _methods(of: type, public: set[type]) -> Iterator[tuple[str, str | None]]:
    """Yield the name and docstring of each public method or property that a class has of its own,
    or from a base of oncelog that is not public."""
    bases = [
        base
        for base in of.__mro__
        if base.__module__.startswith("oncelog") and (base is of or base not in public)
    ]
    for name in dict.fromkeys(name for base in bases for name in vars(base)):
        value = inspect.getattr_static(of, name)
        is_method = inspect.isfunction(value) or isinstance(value, _METHODS)
        if is_method and not name.startswith("_"):
            yield name, inspect.getdoc(getattr(of, name))
