"""Addresses as text: the form that access rules compare, and the tests for addresses and loopback
addresses."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address, ip_address
from typing import Final

_GROUPS: Final = 8
_GROUP_BYTES: Final = 2


def host_text(text: str) -> str:
    """Return an address as Java's getHostAddress writes it: an IPv6 address as eight numbers
    without leading zeros and without `::`, and an IPv4 address that is mapped to IPv6 as IPv4.
    Return any other text unchanged.

    A listener of both families shows an IPv4 client as `::ffff:10.0.0.1`.
    """
    address, percent, scope = text.partition("%")
    try:
        parsed = IPv6Address(address)
    except AddressValueError:
        return text
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    numbers = (
        int.from_bytes(parsed.packed[start : start + _GROUP_BYTES])
        for start in range(0, _GROUPS * _GROUP_BYTES, _GROUP_BYTES)
    )
    return ":".join(f"{number:x}" for number in numbers) + percent + scope


def is_address(text: str) -> bool:
    """Return True for an IPv4 or IPv6 address, and False for the name of a host."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return True for `localhost` and the loopback addresses."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
