"""The elements of DER (X.690), as far as certificates and key stores have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

INTEGER: Final = 0x02
OCTET_STRING: Final = 0x04
OBJECT_IDENTIFIER: Final = 0x06
UTC_TIME: Final = 0x17
SEQUENCE: Final = 0x30
SET: Final = 0x31

_LONG_FORM: Final = 0x80
_LONG_TAG: Final = 0x1F
# Four bytes of length are enough for every certificate.
_MOST_LENGTH_BYTES: Final = 4


class DerError(ValueError):
    """The bytes are not DER, or not the expected structure."""


class Element(NamedTuple):
    """One element. `raw` is the whole element, `content` is the element without tag and length."""

    tag: int
    content: bytes
    raw: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Yield the elements that follow each other in `data`. Raises DerError."""
    at = 0
    while at < len(data):
        element = _element(data, at)
        yield element
        at += len(element.raw)


def only(data: bytes, tag: int) -> Element:
    """Return the single element of `data`. Raises DerError if it has another tag, or bytes follow
    it."""
    element = _element(data, 0)
    if element.tag != tag or len(element.raw) != len(data):
        raise DerError(f"expected a single element with tag {tag:#04x}")
    return element


def sequence(data: bytes, tag: int = SEQUENCE) -> list[Element]:
    """Return the elements inside of the single element of `data`. Raises DerError."""
    return list(elements(only(data, tag).content))


def identifier(content: bytes) -> str:
    """Return the text of an object identifier: `2.5.4.3`. Raises DerError."""
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if byte & 0x80 == 0:
            numbers.append(value)
            value = 0
    if not content or content[-1] & 0x80:
        raise DerError("an object identifier that ends too early")
    # The first number holds two: 40 * first + second (X.690, 8.19.4).
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _element(data: bytes, start: int) -> Element:
    if start + 2 > len(data) or data[start] & _LONG_TAG == _LONG_TAG:
        raise DerError("an element that ends too early, or with a tag of several bytes")
    length, at = data[start + 1], start + 2
    if length & _LONG_FORM:
        size = length & ~_LONG_FORM
        if not 0 < size <= _MOST_LENGTH_BYTES or at + size > len(data):
            raise DerError("an element with an invalid length")
        length, at = int.from_bytes(data[at : at + size]), at + size
    if at + length > len(data):
        raise DerError("an element that is longer than its data")
    return Element(data[start], data[at : at + length], data[start : at + length])
