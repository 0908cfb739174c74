"""The columns of the source: those of Spark's own Kafka connector, or some of them. Spark prunes no
columns of a Python source. Instead the user's schema selects columns, as in
`spark.readStream.schema("value binary")`. The source builds only these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

HEADERS: Final = "headers"

# Name -> type, as `DataType.simpleString()` writes it.
COLUMNS: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}

# In DDL the meaning of `timestamp` depends on spark.sql.timestampType.
_IN_DDL: Final[Mapping[str, str]] = {"timestamp": "timestamp_ltz"}


class SchemaError(ValueError):
    """A schema that the source cannot return, for example with an unknown column or another
    type."""


class SourceColumn(NamedTuple):
    """One column of a user's schema, with the type as `DataType.simpleString()` writes it."""

    name: str
    type: str
    nullable: bool = True


def ddl(*, include_headers: bool) -> str:
    """Return the schema for a query without a schema of its own."""
    return ", ".join(_in_ddl(name) for name in COLUMNS if include_headers or name != HEADERS)


def projection(schema: Sequence[SourceColumn]) -> tuple[str, ...]:
    """Return the names of the columns to build, in the schema's order. Raises SchemaError."""
    if not schema:
        raise SchemaError(f"the schema has no column; the source has {_listed()}")
    for column in schema:
        _check(column)
    names = tuple(column.name for column in schema)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"the schema has {', '.join(twice)} twice")
    return names


def _check(column: SourceColumn) -> None:
    known = COLUMNS.get(column.name)
    if known is None:
        near = [name for name in COLUMNS if name.lower() == column.name.lower()]
        hint = f"did you mean {near[0]}?" if near else f"there are {_listed()}"
        raise SchemaError(f"the source has no column {column.name!r}: {hint}")
    if column.type != known:
        wanted = _IN_DDL.get(known, known)
        raise SchemaError(
            f"column {column.name} is {wanted}, not {column.type}: cast it after the read"
        )
    if not column.nullable:
        raise SchemaError(f"column {column.name} may be null: leave NOT NULL out")


def _listed() -> str:
    return ", ".join(map(_in_ddl, COLUMNS))


def _in_ddl(name: str) -> str:
    kind = COLUMNS[name]
    return f"{name} {_IN_DDL.get(kind, kind)}"
