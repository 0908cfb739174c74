"""The base of `Settings` and its parts: immutable dataclasses with keyword arguments."""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, NoReturn, dataclass_transform


# `dataclass` writes its methods as source text with all fields, and compiles the text. For all
# settings, that takes 6 ms of each start. The methods below need no compilation.
@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class ImmutableSettings:
    """A subclass is a dataclass. Each of its fields must have a default.

    Raises TypeError for an argument that is no field, FrozenInstanceError if an attribute is set.
    """

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(self, **values: Any) -> None:
        state = self.__dict__
        for column in fields(self):  # type: ignore[arg-type]  # a subclass is a dataclass
            if column.name in values:
                state[column.name] = values.pop(column.name)
            elif column.default_factory is not MISSING:
                state[column.name] = column.default_factory()
            else:
                state[column.name] = column.default
        if values:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(values))}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")
