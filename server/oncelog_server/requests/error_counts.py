"""Counts the error codes of responses, as Kafka's `ErrorsPerSec` does: every code of a response
counts, NONE too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from oncelog_protocol.apis import APIS
from oncelog_protocol.codecs import Encoder
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.schema import schema_of
from oncelog_protocol.types import Array, Nested
from oncelog_server.slices import Steps

_CODE: Final = "error_code"
# Number of codes that are counted in a step.
_STEP: Final = 200


class _Place(NamedTuple):
    """The codes in a message: its own, and those of the fields `inner`."""

    has_code: bool
    inner: tuple[tuple[str, _Place], ...]

    @property
    def is_empty(self) -> bool:
        return not self.has_code and not self.inner


class ErrorCounts:
    """`counts` has the number of each (API key, error code) since the start."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[int, int]] = Counter()

    def counting(self, key: int, version: int, cls: type, encode: Encoder[Any]) -> Encoder[Any]:
        """Return an encoder of `cls` that also counts the codes."""
        place = _place_of(cls, version)

        def encode_and_count(response: Any, append: Callable[[Any], object]) -> None:
            for code in _codes(response, place):
                self.counts[key, code] += 1
            encode(response, append)

        return encode_and_count

    def count_in_steps(self, key: int, version: int, response: Any) -> Steps[None]:
        """Count the codes of a large response, in steps."""
        codes = _codes(response, _place_of(APIS[key].response, version))
        while some := list(islice(codes, _STEP)):
            for code in some:
                self.counts[key, code] += 1
            yield


def _place_of(cls: type, version: int) -> _Place:
    fields = [field for field in schema_of(cls).fields if field.present(version)]
    inner = []
    for field in fields:
        kind = field.type
        if isinstance(kind, Array | Nested) and isinstance(kind.of, type):
            place = _place_of(kind.of, version)
            if not place.is_empty:
                inner.append((field.name, place))
    return _Place(any(field.name == _CODE for field in fields), tuple(inner))


def _codes(message: Any, place: _Place) -> Iterator[int]:
    if type(message) is bytes:
        # A row of a Produce response that is encoded already. Rows have no error.
        yield ErrorCode.NONE
        return
    if place.has_code:
        yield message.error_code
    for name, inner in place.inner:
        value = getattr(message, name)
        if isinstance(value, list):
            for element in value:
                yield from _codes(element, inner)
        elif value is not None:
            yield from _codes(value, inner)
