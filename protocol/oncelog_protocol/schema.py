"""A message as one table for all its versions: a class with fields that have type, versions and
default.

`codegen` makes the codecs of a version from the table.
Source: the message definitions of Apache Kafka, and KIP-482 for tagged fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar, cast, dataclass_transform

from oncelog_protocol.secret import HIDDEN
from oncelog_protocol.types import NEVER, Array, Default, FieldSpec, FieldType, Nested, Primitive

T = TypeVar("T")


class Field(NamedTuple):
    """One row of a table. Versions are inclusive. The `default` is the class `Default` if each
    message gets a new list or struct."""

    name: str
    type: FieldType
    since: int
    until: int
    nullable_since: int
    tag: int | None
    default: object
    secret: bool

    def present(self, version: int) -> bool:
        """Return True if the field is on the wire in this version."""
        return self.since <= version <= self.until

    def nullable(self, version: int) -> bool:
        """Return True if the value may be null in this version."""
        return version >= self.nullable_since


class Schema(NamedTuple):
    """The table of a message or of a nested struct. A struct has no versions itself."""

    cls: type
    fields: tuple[Field, ...]
    versions: range
    flexible_since: int

    @property
    def name(self) -> str:
        return self.cls.__name__

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def present(self, version: int) -> Iterator[Field]:
        """Yield the fields on the wire in this version that are not tagged, in wire order."""
        return (f for f in self.fields if f.tag is None and f.present(version))

    def tagged(self, version: int) -> list[Field]:
        """Return the tagged fields of this version, in the order of their tags."""
        found = [f for f in self.fields if f.tag is not None and f.present(version)]
        return sorted(found, key=lambda f: f.tag or 0)


def schema_of(cls: type) -> Schema:
    """Return the table of a class that `message` or `struct` has made."""
    schema = cls.__dict__.get("__schema__")
    if not isinstance(schema, Schema):
        raise TypeError(f"{cls.__name__} is not a message")
    return schema


@dataclass_transform()
def message(versions: range, *, flexible_since: int = NEVER) -> Callable[[type[T]], type[T]]:
    """Turn a class of field declarations into a message with these versions. A request or response
    uses `apis.api_message` instead.

    From `flexible_since` on, lengths are compact and tagged fields are allowed (KIP-482).
    """

    def build(cls: type[T]) -> type[T]:
        return _build(cls, versions, flexible_since)

    return build


@dataclass_transform()
def struct(cls: type[T]) -> type[T]:
    """Turn a class of field declarations into a struct, which is a part of messages."""
    return _build(cls, range(0), NEVER)


def _build(cls: type[T], versions: range, flexible_since: int) -> type[T]:
    namespace: dict[str, Any] = dict(cls.__dict__)
    fields = []
    for name in cls.__annotations__:
        spec = namespace.pop(name)
        if not isinstance(spec, FieldSpec):
            raise TypeError(f"{cls.__name__}.{name} is not declared as a field")
        fields.append(
            Field(
                name,
                spec.type,
                spec.since,
                spec.until,
                spec.nullable_since,
                spec.tag,
                spec.default,
                spec.secret,
            )
        )
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    names = tuple(field.name for field in fields)
    namespace["__slots__"] = namespace["__match_args__"] = names
    namespace["__init__"] = _initialise_first
    namespace["__eq__"] = _equal
    namespace["__repr__"] = _represent
    namespace["__hash__"] = None
    made: Any = type(cls.__name__, cls.__bases__, namespace)
    made.__schema__ = Schema(made, tuple(fields), versions, flexible_since)
    return cast(type[T], made)


def _initialise_first(self: Any, *values: Any, **named: Any) -> None:
    """Compile the `__init__` of the class, and call it. There are more than 300 tables. To compile
    all of them would take a tenth of the time that a broker needs to start.

    The function is the same for all classes. A function for each class would keep the class of its
    declarations alive, 0.7 MB in all.
    """
    made: Any = type(self)
    made.__init__ = _initialiser(schema_of(made))
    made.__init__(self, *values, **named)


def _initialiser(schema: Schema) -> Any:
    """Return an `__init__` with one parameter per field, in wire order, each with its default."""
    scope: dict[str, Any] = {"_new": Default}
    parameters, body = ["self"], []
    for position, field in enumerate(schema.fields):
        if field.default is not Default:
            scope[f"_d{position}"] = field.default
            parameters.append(f"{field.name}=_d{position}")
            body.append(f" self.{field.name} = {field.name}")
            continue
        fresh = "[]"
        if isinstance(field.type, Nested):
            scope[f"_c{position}"] = field.type.of
            fresh = f"_c{position}()"
        parameters.append(f"{field.name}=_new")
        body.append(f" self.{field.name} = {fresh} if {field.name} is _new else {field.name}")
    source = f"def __init__({', '.join(parameters)}):\n" + "\n".join(body or [" pass"])
    exec(source, scope)
    initialise = scope["__init__"]
    initialise.__qualname__ = f"{schema.cls.__qualname__}.__init__"
    initialise.__module__ = schema.cls.__module__
    return initialise


def _equal(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in schema_of(type(self)).names)


def _represent(self: Any) -> str:
    values = ", ".join(
        f"{field.name}={HIDDEN if field.secret else repr(getattr(self, field.name))}"
        for field in schema_of(type(self)).fields
    )
    return f"{self.__class__.__name__}({values})"


def minimal_size(kind: FieldType | type, version: int, flexible: bool) -> int:
    """Return the minimum size on the wire of a value of this type, in bytes."""
    if isinstance(kind, Primitive):
        if kind.size:
            return kind.size
        return 1 if flexible else 2 if kind.name == "string" else 4
    if isinstance(kind, Array):
        return 1 if flexible else 4
    schema = schema_of(kind.of if isinstance(kind, Nested) else kind)
    size = sum(
        1
        if field.nullable(version) and isinstance(field.type, Nested)
        else minimal_size(field.type, version, flexible)
        for field in schema.present(version)
    )
    return size + flexible
