"""The quotas of a user hold for the clients that authenticate as this user, and for no others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from oncelog_client import Admin
from oncelog_client.admin import ClientQuotaEntity
from tests.harness.certificates import Certificates
from tests.security.secured_broker import PASSWORD, USER, SecuredOncelog

# A batch of VALUE_BYTES exceeds ten windows of this rate by far.
RATE, VALUE_BYTES = 1_000.0, 15_000


@pytest.fixture
def limited(secured: SecuredOncelog) -> Iterator[SecuredOncelog]:
    def alter(limit: float | None) -> None:
        async def altered() -> None:
            async with Admin(secured.address_of("PLAINTEXT")) as admin:
                entity = ClientQuotaEntity(user=USER)
                await admin.alter_client_quotas({entity: {"producer_byte_rate": limit}})

        asyncio.run(altered())

    alter(RATE)
    yield secured
    alter(None)


def throttled(broker: SecuredOncelog, listener: str, settings: dict[str, Any]) -> bool:
    """Produce two records in turn. Return True if the broker has throttled the client."""
    events: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.address_of(listener),
            "throttle_cb": events.append,
            "linger.ms": 0,
            **settings,
        }
    )
    for _ in range(2):
        producer.produce("quotas", b"v" * VALUE_BYTES)
        assert producer.flush(60) == 0
    return bool(events)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_user_is_throttled_and_another_user_is_not(
    limited: SecuredOncelog, certificates: Certificates, listener: str, mechanism: str
) -> None:
    settings = {
        "security.protocol": listener,
        "sasl.mechanism": mechanism,
        "ssl.ca.location": str(certificates.authority_path),
    }
    alice = {"sasl.username": USER, "sasl.password": PASSWORD}
    bob = {"sasl.mechanism": "PLAIN", "sasl.username": "bob", "sasl.password": "bobs"}
    assert throttled(limited, listener, settings | alice)
    assert not throttled(limited, listener, settings | bob)
    assert not throttled(limited, "PLAINTEXT", {})
