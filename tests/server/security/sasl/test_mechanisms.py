"""The table of the exchanges."""

from __future__ import annotations

import pytest

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.scram_credential import ScramMechanism
from oncelog_server.security.sasl.exchange import Authenticated, AuthenticationRefused, Challenge
from oncelog_server.security.sasl.mechanisms import SaslSources, new_exchange
from oncelog_server.security.sasl.plain import PlainExchange, PlainUsers

PLAIN, SHA_256, SHA_512, OAUTHBEARER = SaslMechanism
USERS = PlainUsers({"alice": Secret("S3cret")}, b"key")


def sources(looked_up: list[object]) -> SaslSources:
    def bearer(again: bool) -> PlainExchange:
        looked_up.append(again)
        return PlainExchange(USERS)

    return SaslSources(
        lambda mechanism, name: looked_up.append((mechanism, name)),
        bytes,
        b"secret",
        USERS,
        oauthbearer=bearer,
    )


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_scram_looks_up_the_credential_of_its_mechanism(mechanism: SaslMechanism) -> None:
    looked_up: list[object] = []

    exchange = new_exchange(mechanism, sources(looked_up), reauthentication=True)

    assert isinstance(exchange.evaluate(b"n,,n=alice,r=abc"), Challenge)
    assert looked_up == [(ScramMechanism[mechanism.name], "alice")]
    with pytest.raises(AuthenticationRefused, match=f"re-authentication .* {mechanism}$"):
        exchange.evaluate(b"")


@pytest.mark.parametrize("mechanism", [PLAIN, OAUTHBEARER])
def test_the_other_mechanisms_have_their_own_exchange(mechanism: SaslMechanism) -> None:
    exchange = new_exchange(mechanism, sources([]))

    assert isinstance(exchange.evaluate(b"\0alice\0S3cret"), Authenticated)


def test_oauthbearer_knows_if_the_connection_was_authenticated_before() -> None:
    asked: list[object] = []
    for again in (False, True):
        new_exchange(OAUTHBEARER, sources(asked), reauthentication=again)
    assert asked == [False, True]


@pytest.mark.parametrize("mechanism", [PLAIN, OAUTHBEARER])
def test_a_mechanism_without_its_source_is_refused(mechanism: SaslMechanism) -> None:
    with pytest.raises(ValueError, match=f"SASL mechanism {mechanism} has no"):
        new_exchange(mechanism, SaslSources(lambda _, name: None, bytes, b"secret"))
