"""The handshake of a connection: the stages until the connection has a session."""

from __future__ import annotations

import pytest

from oncelog_server.requests.session import HANDSHAKE, Handshake, HandshakeEvent, Stage
from oncelog_server.security.resources import ANONYMOUS


def test_a_plaintext_client_is_anonymous_once_its_transport_is_open() -> None:
    handshake = Handshake("EXTERNAL")
    session = handshake.transport_open("10.0.0.1", lambda: True)
    assert handshake.stage is Stage.READY
    assert (session.principal, session.host, session.listener) == (
        ANONYMOUS,
        "10.0.0.1",
        "EXTERNAL",
    )
    assert session.address == "/10.0.0.1"
    assert session.has_hung_up()


@pytest.mark.parametrize(
    ("stage", "event"),
    [
        (stage, event)
        for stage in Stage
        for event in HandshakeEvent
        if (stage, event) not in HANDSHAKE
    ],
)
def test_unexpected_events_give_no_session(stage: Stage, event: HandshakeEvent) -> None:
    assert event is HandshakeEvent.TRANSPORT_OPEN
    handshake = Handshake("PLAINTEXT")
    handshake.stage = stage
    with pytest.raises(KeyError):
        handshake.transport_open("10.0.0.1", lambda: False)
    assert handshake.stage is stage


@pytest.mark.parametrize(
    ("peer", "host"), [("::1", "0:0:0:0:0:0:0:1"), ("::ffff:10.0.0.1", "10.0.0.1")]
)
def test_a_session_has_the_address_in_javas_form(peer: str, host: str) -> None:
    """Access rules compare this text, and DescribeGroups shows it."""
    session = Handshake("PLAINTEXT").transport_open(peer, lambda: False)
    assert (session.host, session.address) == (host, f"/{host}")
