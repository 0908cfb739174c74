"""The handshake of a connection: the stages until its requests are served."""

from __future__ import annotations

from itertools import product

import pytest

from oncelog_server.requests.session import HANDSHAKE, Handshake, HandshakeEvent, Session, Stage
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.security.resources import ANONYMOUS, Principal

ALICE = Principal("User", "alice")
OPEN, TLS, SASL = HandshakeEvent


def after(handshake: Handshake, *events: HandshakeEvent) -> Session:
    """Return the session after these events."""
    session = handshake.transport_open("10.0.0.1", lambda: True)
    for event in events:
        step = handshake.tls_established if event is TLS else handshake.authenticated
        session = step(session, ALICE)
    return session


def test_a_plaintext_client_is_anonymous_once_its_transport_is_open() -> None:
    handshake = Handshake("EXTERNAL")
    session = after(handshake)
    assert handshake.stage is Stage.READY
    assert (session.principal, session.host, session.listener) == (
        ANONYMOUS,
        "10.0.0.1",
        "EXTERNAL",
    )
    assert session.address == "/10.0.0.1"
    assert session.has_hung_up()
    assert session.is_established


@pytest.mark.parametrize(
    ("protocol", "events"),
    [
        (SecurityProtocol.SSL, (TLS,)),
        (SecurityProtocol.SASL_PLAINTEXT, (SASL,)),
        (SecurityProtocol.SASL_SSL, (TLS, SASL)),
    ],
)
def test_a_client_is_ready_after_all_steps_of_its_protocol_and_not_before(
    protocol: SecurityProtocol, events: tuple[HandshakeEvent, ...]
) -> None:
    for count in range(len(events)):
        handshake = Handshake("EXTERNAL", protocol)
        session = after(handshake, *events[:count])
        assert handshake.stage is not Stage.READY
        assert not session.is_established

    handshake = Handshake("EXTERNAL", protocol)
    session = after(handshake, *events)

    assert handshake.stage is Stage.READY
    assert session.principal == ALICE
    assert session.is_established


def test_a_session_mutes_its_connection_before_and_after_authentication() -> None:
    muted: list[int] = []
    handshake = Handshake("EXTERNAL", SecurityProtocol.SASL_SSL)
    session = handshake.transport_open("10.0.0.1", lambda: False, muted.append)
    session = handshake.tls_established(session, ANONYMOUS)
    handshake.authenticated(session, ALICE).mute(5)
    assert muted == [5]


@pytest.mark.parametrize(
    ("protocol", "stage", "event"),
    [row for row in product(SecurityProtocol, Stage, HandshakeEvent) if row not in HANDSHAKE],
)
def test_unexpected_events_give_no_session(
    protocol: SecurityProtocol, stage: Stage, event: HandshakeEvent
) -> None:
    handshake = Handshake("PLAINTEXT", protocol)
    handshake.stage = stage
    session = Session(ANONYMOUS, "10.0.0.1", "PLAINTEXT", lambda: False)
    steps = {
        OPEN: lambda: handshake.transport_open("10.0.0.1", lambda: False),
        TLS: lambda: handshake.tls_established(session, ALICE),
        SASL: lambda: handshake.authenticated(session, ALICE),
    }
    with pytest.raises(KeyError):
        steps[event]()
    assert handshake.stage is stage


@pytest.mark.parametrize(
    ("peer", "host"), [("::1", "0:0:0:0:0:0:0:1"), ("::ffff:10.0.0.1", "10.0.0.1")]
)
def test_a_session_has_the_address_in_javas_form(peer: str, host: str) -> None:
    """Access rules compare this text, and DescribeGroups shows it."""
    session = Handshake("PLAINTEXT").transport_open(peer, lambda: False)
    assert (session.host, session.address) == (host, f"/{host}")
