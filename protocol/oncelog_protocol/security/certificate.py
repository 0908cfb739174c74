"""The parts of an X.509 certificate (RFC 5280) that the broker compares and shows. OpenSSL alone
decides if a certificate is valid."""

from __future__ import annotations

import calendar
from itertools import pairwise
from typing import Final, NamedTuple

from oncelog_protocol.security.der import (
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    UTC_TIME,
    DerError,
    Element,
    elements,
    only,
    sequence,
)

_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_SUBJECT_ALTERNATIVE_NAME: Final = bytes.fromhex("551d11")  # 2.5.29.17
# The fields after the version: serial number, signature, issuer, validity, subject.
_ISSUER, _VALIDITY, _SUBJECT = 2, 3, 4


class Certificate(NamedTuple):
    """`issuer` and `subject` are names in DER. The times are in ms since the epoch. `names` has the
    subject alternative names, each a GeneralName in DER."""

    issuer: bytes
    subject: bytes
    not_before_ms: int
    not_after_ms: int
    names: frozenset[bytes]


def parsed(der: bytes) -> Certificate:
    """Return the parts of a certificate in DER. Raises DerError."""
    try:
        fields = sequence(sequence(der)[0].raw)
        if fields[0].tag == _VERSION:
            fields = fields[1:]
        validity = sequence(fields[_VALIDITY].raw)
        before, after = _time_ms(validity[0]), _time_ms(validity[1])
        subject = only(fields[_SUBJECT].raw, SEQUENCE)
        names = _names(fields)
    except IndexError:
        raise DerError("a certificate with too few fields") from None
    return Certificate(fields[_ISSUER].raw, subject.raw, before, after, names)


def subject_of(der: bytes) -> bytes:
    """Return the subject of a certificate, as a name in DER. Raises DerError."""
    return parsed(der).subject


def expiry_ms(chain: tuple[bytes, ...]) -> int:
    """Return the earliest time at which a certificate of a chain in DER expires, in ms since the
    epoch. Raises DerError."""
    return min(parsed(der).not_after_ms for der in chain)


def ordered_chain(leaf: bytes, others: list[bytes]) -> tuple[bytes, ...]:
    """Return a chain of certificates: `leaf`, the certificate of its issuer, and so on, as far as
    `others` has them. All are in DER. Raises DerError."""
    by_subject = {subject_of(other): other for other in others}
    chain = [leaf]
    certificate = parsed(leaf)
    while (issuer := by_subject.pop(certificate.issuer, None)) is not None and issuer != chain[-1]:
        chain.append(issuer)
        certificate = parsed(issuer)
    return tuple(chain)


def gap_in(chain: tuple[bytes, ...]) -> int | None:
    """Return the position (from 1) of the first certificate with an issuer that is not the subject
    of the next certificate. Return None if the order is right. Raises DerError."""
    certificates = [parsed(der) for der in chain]
    for position, (issued, issuer) in enumerate(pairwise(certificates), 1):
        if issued.issuer != issuer.subject:
            return position
    return None


def _names(fields: list[Element]) -> frozenset[bytes]:
    for extensions in (field for field in fields if field.tag == _EXTENSIONS):
        for extension in sequence(only(extensions.content, SEQUENCE).raw):
            parts = sequence(extension.raw)
            if parts[0].tag == OBJECT_IDENTIFIER and parts[0].content == _SUBJECT_ALTERNATIVE_NAME:
                value = only(parts[-1].raw, OCTET_STRING).content
                return frozenset(name.raw for name in elements(only(value, SEQUENCE).content))
    return frozenset()


def _time_ms(element: Element) -> int:
    """Return the time of a UTCTime or GeneralizedTime in ms since the epoch (RFC 5280, 4.1.2.5)."""
    text = element.content.decode("ascii", "replace")
    if element.tag == UTC_TIME:
        text = f"{'20' if text < '50' else '19'}{text}"
    if len(text) != len("YYYYMMDDHHMMSSZ") or text[-1] != "Z" or not text[:-1].isdecimal():
        raise DerError("an invalid time")
    pairs = (int(text[at : at + 2]) for at in range(4, len(text) - 1, 2))
    try:
        return calendar.timegm((int(text[:4]), *pairs)) * 1_000
    except ValueError:
        raise DerError("an invalid time") from None
