"""The columns of a sink, by the rules of Spark's own Kafka sink. Other columns are ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from .refusals import SinkError


class SinkColumn(NamedTuple):
    """One column of the rows. `type` has the form of Spark's `simpleString`."""

    name: str
    type: str


_BYTES: Final = ("binary", "string")
TYPES: Final = {
    "topic": ("string",),
    "key": _BYTES,
    "value": _BYTES,
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}


def check_columns(columns: Iterable[SinkColumn], topic: str | None) -> None:
    """Raise SinkError if the columns of the rows do not fit a sink. `topic` is the value of the
    option."""
    given = {column.name: column.type for column in columns}
    if "value" not in given:
        raise SinkError(f"a column 'value' is needed; the columns are {_names(given)}")
    if topic is None and "topic" not in given:
        raise SinkError(
            "the rows have no topic. Set the option 'topic', or name the topic of each row in a"
            f" column 'topic'; the columns are {_names(given)}"
        )
    for name, wanted in TYPES.items():
        if name in given and given[name] not in wanted:
            raise SinkError(f"column '{name}' must be {' or '.join(wanted)}, not {given[name]}")


def _names(given: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in given) or "none"
