"""The limits of new connections from addresses (KIP-612)."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address

from oncelog_server.quotas.entities import IP, Entity, EntityLimits, Quota
from oncelog_server.quotas.limits import ABSENT, FoundLimit


class AddressLimits:
    """The limit of each address, or else the default. An address may be in any notation."""

    def __init__(self, quotas: Mapping[Entity, EntityLimits]) -> None:
        self._by_address: dict[str | None, float] = {}
        for entity, limits in quotas.items():
            names = dict(entity)
            if IP in names and Quota.CONNECTION in limits:
                address = names[IP]
                key = None if address is None else address_key(address)
                self._by_address[key] = limits[Quota.CONNECTION]

    def __bool__(self) -> bool:
        """Return True if there is a definition."""
        return bool(self._by_address)

    def of(self, user: str, client_id: str) -> FoundLimit | None:
        """Return the limit of the address that `client_id` contains. Return None if the address
        has no limit."""
        address = address_key(client_id)
        limit = self._by_address.get(address, self._by_address.get(None))
        return None if limit is None else FoundLimit(limit, ABSENT, address)


def address_key(text: str) -> str:
    """Return an address in one notation: a mapped IPv4 address as IPv4, an IPv6 address in its
    short form. Return any other text unchanged."""
    try:
        address = ip_address(text)
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
