"""Values of the JSON files of Kafka's tools, with the messages of Kafka's class JsonValue."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from oncelog_client.kafka_tools.failures import JavaError

_MAPPING: Final = "com.fasterxml.jackson.databind.JsonMappingException"
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63


class JsonError(JavaError):
    """A value of another form than the tool needs."""

    def __init__(self, reason: str) -> None:
        super().__init__(_MAPPING, reason)


def parse_json(text: str) -> Any:
    """Return a parsed text. Raises ValueError if it is not JSON (RFC 8259)."""
    return json.loads(text, parse_constant=_refuse_constant)


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object. Raises JsonError."""
    return value if isinstance(value, dict) else _unexpected("JSON object", value)


def as_array(value: Any) -> list[Any]:
    """Return a JSON array. Raises JsonError."""
    return value if isinstance(value, list) else _unexpected("JSON array", value)


def as_string(value: Any) -> str:
    """Return a text. Raises JsonError."""
    return value if isinstance(value, str) else _unexpected("`String` value", value)


def as_integer(value: Any) -> int:
    """Return a number of 32 bits. Raises JsonError, also for `1.0`."""
    return _number("Integer", value, _INT32)


def as_long(value: Any) -> int:
    """Return a number of 64 bits. Raises JsonError, also for `1.0`."""
    return _number("Long", value, _INT64)


def field(value: Any, name: str) -> Any:
    """Return a field of a JSON object. Raises JsonError if there is none."""
    found = as_object(value)
    if name not in found:
        raise JsonError(f"No such field exists: `{name}`")
    return found[name]


def _number(java_class: str, value: Any, limit: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit:
        return value
    _unexpected(f"`{java_class}` value", value)


def _unexpected(expected: str, value: Any) -> NoReturn:
    received = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    raise JsonError(f"Expected {expected}, received {received}")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
