"""Counts the error codes of responses, as Kafka's `ErrorsPerSec` does: every code of a response
counts, NONE too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from oncelog_protocol.codecs import Encoder
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.schema import schema_of
from oncelog_protocol.types import Array, Nested
from oncelog_server.slices import Steps

_CODE: Final = "error_code"

# Appends the codes of a message to a list.
_Collect: TypeAlias = Callable[[Any, list[int]], None]


class ErrorCounts:
    """Wraps the encoders of responses. A broker without a port for metrics has no such object."""

    def __init__(self) -> None:
        self._counts: dict[int, dict[int, int]] = {}

    @property
    def counts(self) -> dict[tuple[int, int], int]:
        """Return the number of each (API key, error code) since the start."""
        return {
            (key, code): count
            for key, of_api in self._counts.items()
            for code, count in of_api.items()
        }

    def counting(self, key: int, version: int, cls: type, encode: Encoder[Any]) -> Encoder[Any]:
        """Return an encoder of `cls` that also counts the codes."""
        collect = _collector(cls, version)
        if collect is None:
            return encode
        counts = self._counts.setdefault(key, {})

        def encode_and_count(response: Any, append: Callable[[Any], object]) -> None:
            codes: list[int] = []
            collect(response, codes)
            for code in codes:
                counts[code] = counts.get(code, 0) + 1
            encode(response, append)

        return encode_and_count

    def count_in_steps(self, key: int, version: int, response: Any) -> Steps[None]:
        """Count the codes of a large response, with a step for each element of its arrays."""
        cls = type(response)
        counts = self._counts.setdefault(key, {})
        for part, collect in _parts(response, cls, version):
            codes: list[int] = []
            collect(part, codes)
            for code in codes:
                counts[code] = counts.get(code, 0) + 1
            yield


def _parts(response: Any, cls: type, version: int) -> Iterator[tuple[Any, _Collect]]:
    """Yield the parts of a response with codes: its own code, and each element of its arrays."""
    if _has_code(cls, version):
        yield response, _collect_own
    for name, collect in _inner(cls, version):
        value = getattr(response, name)
        for element in value if type(value) is list else [value]:
            if element is not None:
                yield element, collect


def _collector(cls: type, version: int) -> _Collect | None:
    """Return the function for messages of a class, None if they have no codes."""
    has_code, inner = _has_code(cls, version), _inner(cls, version)
    if not inner:
        return _collect_own if has_code else None

    def collect(message: Any, codes: list[int]) -> None:
        if has_code:
            codes.append(message.error_code)
        for name, collect_inner in inner:
            value = getattr(message, name)
            if type(value) is list:
                for element in value:
                    collect_inner(element, codes)
            elif value is not None:
                collect_inner(value, codes)

    return collect


def _collect_own(message: Any, codes: list[int]) -> None:
    # A row of a Produce response is encoded already, and rows have no error.
    codes.append(ErrorCode.NONE if type(message) is bytes else message.error_code)


def _has_code(cls: type, version: int) -> bool:
    return any(field.name == _CODE and field.present(version) for field in schema_of(cls).fields)


def _inner(cls: type, version: int) -> list[tuple[str, _Collect]]:
    """Return the fields of a class with codes inside."""
    found = []
    for field in schema_of(cls).fields:
        kind = field.type
        if isinstance(kind, Array | Nested) and isinstance(kind.of, type):
            collect = _collector(kind.of, version) if field.present(version) else None
            if collect is not None:
                found.append((field.name, collect))
    return found
