"""Names of X.509 certificates as Java's X500Principal.getName() writes them.

The form is RFC 2253, with Java's readings: only nine attributes have a keyword; the bytes of every
type of string are read as UTF-8; any other value is `#` and its DER in hexadecimal.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.security.der import DerError, Element, identifier, sequence

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString.
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_SET: Final = 0x31
_ESCAPED: Final = frozenset(',=+<>#;"\\')
# Java also escapes a carriage return at the ends, as if it were a space.
_EDGES: Final = " \r"
# The mark of a length that has bytes of its own (X.690, 8.1.3.5).
_LONG_FORM: Final = 0x80


def x500_name(name: bytes) -> str:
    """Return the text of a name in DER (RFC 5280, 4.1.2.4). Raises DerError."""
    relative_names = sequence(name)
    # RFC 2253, 2.1: the last relative name comes first.
    return ",".join(_relative_name(element) for element in reversed(relative_names))


def _relative_name(element: Element) -> str:
    return "+".join(_attribute(part) for part in sequence(element.raw, _SET))


def _attribute(element: Element) -> str:
    parts = sequence(element.raw)
    if len(parts) != 2:
        raise DerError("an attribute of a name without a type and a value")
    kind, value = parts
    keyword = _KEYWORDS.get(number := identifier(kind.content))
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or number}=#{_shortest(value).hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _shortest(element: Element) -> bytes:
    """Return an element with its length in as few bytes as possible: some certificates have more,
    against DER, and Java corrects them."""
    length = len(element.content)
    if length < _LONG_FORM:
        return bytes([element.tag, length]) + element.content
    size = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes([element.tag, _LONG_FORM | len(size)]) + size + element.content


def _escaped(text: str) -> str:
    written = "".join(
        f"\\{letter}" if letter in _ESCAPED else "\\00" if letter == "\0" else letter
        for letter in text
    )
    inner = written.strip(_EDGES)
    start = written.find(inner) if inner else len(written)
    before, after = written[:start], written[start + len(inner) :]
    return "".join(f"\\{space}" for space in before) + inner + "".join(f"\\{s}" for s in after)
