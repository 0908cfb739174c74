"""A tagged struct is written if any of its fields differs from the default (KIP-482)."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.apis import APIS
from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.schema import Field, Schema, schema_of
from oncelog_protocol.types import Array, Nested, Primitive
from tests.protocol.drawing import case_id


def struct_of(field: Field) -> Schema:
    """Return the table of a field that is a struct."""
    assert isinstance(field.type, Nested)
    return schema_of(field.type.of)


def paths_to_tagged_structs(
    cls: type, version: int, path: tuple[Field, ...] = ()
) -> list[tuple[Field, ...]]:
    """Return the fields that lead to each tagged struct of a message in this version."""
    found: list[tuple[Field, ...]] = []
    for field in schema_of(cls).fields:
        if not field.present(version):
            continue
        kind = field.type
        inner = kind.of if isinstance(kind, Nested | Array) else None
        if not isinstance(inner, type) or isinstance(inner, Primitive):
            continue
        if isinstance(kind, Nested) and field.tag is not None:
            found.append((*path, field))
        found += paths_to_tagged_structs(inner, version, (*path, field))
    return found


CASES = [
    (cls, version, path, changed)
    for api in APIS.values()
    for cls in (api.request, api.response)
    for version in schema_of(cls).versions
    for path in paths_to_tagged_structs(cls, version)
    for changed in struct_of(path[-1]).fields
    if isinstance(changed.type, Primitive) and changed.present(version)
]


def other_value(field: Field) -> Any:
    """Return a value that differs from the default."""
    default = field.default
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 1
    return b"\1" * 16 if isinstance(default, bytes) else "x"


def message_with(cls: type, path: tuple[Field, ...], changed: Field) -> Any:
    message = cls()
    first, rest = path[0], path[1:]
    kind: Any = first.type
    if rest:
        inner = message_with(kind.of, rest, changed)
    else:
        inner = kind.of()
        setattr(inner, changed.name, other_value(changed))
    setattr(message, first.name, [inner] if isinstance(kind, Array) else inner)
    return message


def test_there_are_such_fields() -> None:
    assert {path[-1].name for _, _, path, _ in CASES} >= {
        "replica_state", "diverging_epoch", "current_leader", "snapshot_id",
    }  # fmt: skip


def part_of_id(value: object) -> str:
    if isinstance(value, Field):
        return value.name
    if isinstance(value, tuple):
        return ".".join(field.name for field in value)
    return case_id(value)


@pytest.mark.parametrize(("cls", "version", "path", "changed"), CASES, ids=part_of_id)
def test_each_field_alone_makes_the_struct_differ(
    cls: type[Any], version: int, path: tuple[Field, ...], changed: Field
) -> None:
    message = message_with(cls, path, changed)
    assert decode(cls, version, encode(message, version)) == message
