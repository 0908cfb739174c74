"""Names of subjects in Java's form. tests/conformance/principals compares many more with Java."""

from __future__ import annotations

import pytest

from oncelog_protocol.security.der import DerError
from oncelog_protocol.security.x500_name import x500_name
from tests.conformance.principals.questions import element, identifier

CN, OU, EMAIL = "2.5.4.3", "2.5.4.11", "1.2.840.113549.1.9.1"
UTF8, PRINTABLE, IA5 = 0x0C, 0x13, 0x16


def attribute(kind: str, text: str, tag: int = UTF8) -> bytes:
    return element(0x30, identifier(kind) + element(tag, text.encode()))


def name(*relative_names: bytes) -> bytes:
    return element(0x30, b"".join(element(0x31, attributes) for attributes in relative_names))


@pytest.mark.parametrize(
    ("der", "text"),
    [
        (name(), ""),
        (name(attribute(OU, "a"), attribute(CN, "b")), "CN=b,OU=a"),
        (name(attribute(CN, "b") + attribute(OU, "a")), "CN=b+OU=a"),
        (name(attribute(CN, "a,b")), "CN=a\\,b"),
        (name(attribute(CN, " a ")), "CN=\\ a\\ "),
        (name(attribute(CN, "   ")), "CN=\\ \\ \\ "),
        (name(attribute(CN, "")), "CN="),
        (name(attribute(CN, "#1")), "CN=\\#1"),
        (name(attribute(OU, "x,CN=admin")), "OU=x\\,CN\\=admin"),
        (name(attribute(EMAIL, "x@y.z", IA5)), f"{EMAIL}=#160578" + b"@y.z".hex()),
        (name(attribute(CN, "7", 0x02)), "CN=#020137"),
    ],
)
def test_a_name_has_javas_form(der: bytes, text: str) -> None:
    assert x500_name(der) == text


@pytest.mark.parametrize(
    "der",
    [
        b"",
        b"\x30",
        b"\x30\x05\x31",
        name(b"\x30\x00"),
        name(element(0x30, identifier(CN))),
        name(element(0x30, element(0x06, b"") + element(UTF8, b"a"))),
        name(attribute(CN, "a")) + b"\x00",
    ],
)
def test_other_bytes_are_refused(der: bytes) -> None:
    with pytest.raises(DerError):
        x500_name(der)
