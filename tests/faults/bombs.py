"""Requests with one very long array, for every array in the message tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oncelog_protocol.apis import APIS, api_of
from oncelog_protocol.schema import Field, schema_of
from oncelog_protocol.types import Array, FieldType, Nested, Primitive

Path = tuple[str, ...]


def arrays(cls: type[Any], version: int, before: Path = ()) -> Iterator[Path]:
    """Yield the paths of all arrays in a message of this version, nested ones included."""
    for field in _fields(cls, version):
        path = (*before, field.name)
        inner = field.type.of if isinstance(field.type, Array) else field.type
        if isinstance(field.type, Array):
            yield path
        if not isinstance(inner, Primitive):
            yield from arrays(_class(inner), version, path)


def all_arrays() -> Iterator[tuple[type[Any], Path]]:
    for api in APIS.values():
        for path in arrays(api.request, api.latest):
            yield api.request, path


def bomb(cls: type[Any], path: Path, count: int) -> Any:
    """Return a request with `count` elements in the array at `path`. Arrays on the path have one
    element."""
    version = api_of(cls).latest
    message = cls()
    _name(message, 0, version)
    _fill(message, path, count, version)
    return message


def _fill(message: Any, path: Path, count: int, version: int) -> None:
    field = next(field for field in schema_of(type(message)).fields if field.name == path[0])
    if isinstance(field.type, Nested):
        value = field.type.of()
        setattr(message, field.name, value)
        _fill(value, path[1:], count, version)
        return
    assert isinstance(field.type, Array)
    elements = [
        _element(field.type.of, number, version) for number in range(1 if path[1:] else count)
    ]
    setattr(message, field.name, elements)
    if path[1:]:
        _fill(elements[0], path[1:], count, version)


def _element(kind: FieldType | type, number: int, version: int) -> Any:
    if isinstance(kind, Primitive):
        return {"string": f"n{number}", "bytes": b"", "uuid": bytes(16)}.get(kind.name, number % 99)
    made = _class(kind)()
    _name(made, number, version)
    return made


def _name(message: Any, number: int, version: int) -> None:
    """Put `number` into the names and partitions of an element, so that no two elements are
    equal."""
    for field in _fields(type(message), version):
        if isinstance(field.type, Primitive) and field.type.name == "string":
            setattr(message, field.name, f"n{number}")
        elif field.name in ("partition", "partition_index"):
            setattr(message, field.name, number)


def _fields(cls: type[Any], version: int) -> list[Field]:
    schema = schema_of(cls)
    return [*schema.present(version), *schema.tagged(version)]


def _class(kind: FieldType | type) -> type[Any]:
    if isinstance(kind, Nested):
        return kind.of
    assert isinstance(kind, type)
    return kind
