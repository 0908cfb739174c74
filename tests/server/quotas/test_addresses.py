"""The limit of an address: its own or the default, in any notation of the address."""

from __future__ import annotations

import pytest

from oncelog_server.quotas.addresses import AddressLimits, address_key
from oncelog_server.quotas.entities import Entity, EntityLimits, Quota, entity_of


def limits(rates: dict[str | None, float]) -> AddressLimits:
    quotas: dict[Entity, EntityLimits] = {
        entity_of([("ip", address)]): {Quota.CONNECTION: rate} for address, rate in rates.items()
    }
    quotas[entity_of([("user", "10.0.0.9")])] = {Quota.PRODUCE: 1.0}
    return AddressLimits(quotas)


def test_without_a_quota_of_addresses_there_is_no_limit() -> None:
    assert not limits({})
    assert limits({}).of("", "10.0.0.9") is None


def test_an_address_has_its_own_limit_or_else_the_default() -> None:
    found = limits({"::ffff:10.0.0.1": 5.0, None: 3.0})
    assert found
    rates = [limit and limit.limit for limit in (found.of("", "10.0.0.1"), found.of("", "::1"))]
    assert rates == [5.0, 3.0]
    assert limits({"10.0.0.1": 5.0}).of("", "10.0.0.2") is None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("unknown", "unknown"),
    ],
)
def test_an_address_has_one_key(text: str, key: str) -> None:
    assert address_key(text) == key
