"""Frozen values with named fields, for the settings of clients.

The classes are not dataclasses, because the definition of a dataclass with twelve fields takes 1 ms
for its generated methods. With the import of `dataclasses`, the definitions took a tenth of the
time of `oncelog topic list`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, NoReturn, dataclass_transform

REQUIRED: Final[Any] = object()
"""Marks a field without a default."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Frozen:
    """Base of classes with fields. The annotations of a class are its fields, in order. The
    attributes of a class are the defaults.

    A subclass has the fields of its base too. Values are given by name.
    """

    types: ClassVar[dict[str, str]] = {}
    """Field -> its annotation as text."""
    defaults: ClassVar[dict[str, Any]] = {}
    """Field -> its default, or REQUIRED."""

    def __init_subclass__(cls) -> None:
        own = cls.__annotations__
        cls.types = {**cls.types, **own}
        cls.defaults = {**cls.defaults, **{name: vars(cls).get(name, REQUIRED) for name in own}}

    def __init__(self, **values: Any) -> None:
        held = {**self.defaults, **values}
        wrong = [name for name, value in held.items() if value is REQUIRED]
        wrong += [name for name in values if name not in self.defaults]
        if wrong:
            raise TypeError(f"{type(self).__name__}: {', '.join(wrong)} missing or unknown")
        self.__dict__.update(held)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"
