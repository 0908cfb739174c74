"""Addresses as Java's getHostAddress writes them, which Kafka's access rules compare."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.security.hosts import host_text, is_address, is_loopback
from oncelog_server.security.acls import Acl, Pattern, PatternType, Permission
from oncelog_server.security.resources import Operation, Resource, ResourceType
from oncelog_server.security.standard_authorizer import StandardAuthorizer
from tests.conformance.authorizer.worlds import Asking


@pytest.mark.parametrize(
    ("text", "java"),
    [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::", "0:0:0:0:0:0:0:0"),
        ("2001:db8::a:0:1", "2001:db8:0:0:0:a:0:1"),
        ("2001:0db8:0000:0000:0000:000a:0000:0001", "2001:db8:0:0:0:a:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::ffff:a00:1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("*", "*"),
        ("unknown", "unknown"),
        ("a:b", "a:b"),
        ("1::2::3", "1::2::3"),
        ("host.example:9092", "host.example:9092"),
        ("::1_0", "::1_0"),
        ("::+1", "::+1"),
        ("::10.300.0.1", "::10.300.0.1"),
    ],
)
def test_an_address_has_javas_form(text: str, java: str) -> None:
    assert host_text(text) == java
    assert host_text(java) == java


@given(st.integers(0, 2**128 - 1).map(IPv6Address))
def test_every_ipv6_address_is_written_in_full(address: IPv6Address) -> None:
    expected = ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
    if address.ipv4_mapped is not None:
        expected = str(address.ipv4_mapped)
    assert host_text(str(address)) == host_text(address.exploded) == expected


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_a_mapped_ipv4_address_is_ipv4(address: IPv4Address) -> None:
    assert host_text(f"::ffff:{address}") == str(address)


@given(st.text())
def test_any_text_is_accepted(text: str) -> None:
    assert isinstance(host_text(text), str)


@pytest.mark.parametrize("host", ["::1", "0:0:0:0:0:0:0:1", "0000::0001"])
def test_a_rule_holds_for_an_ipv6_address_in_any_form(host: str) -> None:
    pattern = Pattern(ResourceType.TOPIC, "t", PatternType.LITERAL)
    deny = Acl("User:a", host, Operation.READ, Permission.DENY)
    allow = Acl("User:a", "*", Operation.READ, Permission.ALLOW)
    authorizer = StandardAuthorizer(lambda: {pattern: (deny, allow)}, (), allow_if_no_acl=False)
    topic = Resource(ResourceType.TOPIC, "t")
    for address, expected in (("::1", False), ("::2", True)):
        subject = Asking("User:a", host_text(address))
        assert authorizer.authorize(subject, Operation.READ, topic) is expected


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("localhost", True), ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True),
        ("0.0.0.0", False), ("", False), ("::", False), ("localhost.example", False),
        ("10.0.0.1", False),
    ],
)  # fmt: skip
def test_an_address_of_this_computer(host: str, is_local: bool) -> None:
    assert is_loopback(host) is is_local


@pytest.mark.parametrize("text", ["127.0.0.1", "::1", "::ffff:10.0.0.1"])
def test_an_address_is_no_name(text: str) -> None:
    assert is_address(text)
    assert not is_address(f"{text}.example")
    assert not is_address("")
