"""The events of the clients that a listener refuses."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_server.network.secured_admission import SecuredAdmission
from oncelog_server.requests.session import Session
from oncelog_server.security.audit import MOST_KEYS, GroupedEvents
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.security.resources import ANONYMOUS


def _session(host: str) -> Session:
    return Session(ANONYMOUS, host, "EXTERNAL", lambda: False)


SESSION = _session("10.0.0.1")


class World:
    """A listener, and the events that it logs."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.peers: list[str] = []
        events = GroupedEvents(self._log, lambda: 0)
        self.admission = SecuredAdmission(
            "EXTERNAL", SecurityProtocol.SASL_SSL, events, max_unauthenticated_bytes=1024
        )

    def _log(self, count: int, **fields: Any) -> None:
        self.reasons.append(fields["reason"])
        self.peers.append(fields["peer"])


def test_a_reason_does_not_hide_another_one_of_the_same_address() -> None:
    """A flood of one kind, with any names, is one event."""
    world = World()
    admission = world.admission

    admission.refused(SESSION, "plain bytes on a TLS listener")
    for user in ("alice", "bob", "carol"):
        admission.refused(SESSION, f"wrong password: {user!r}")
    for mechanism in ("A", "B"):
        admission.refused(SESSION, f"the SASL mechanism {mechanism!r} is not enabled")

    assert world.reasons == [
        "plain bytes on a TLS listener",
        "wrong password: 'alice'",
        "the SASL mechanism 'A' is not enabled",
    ]
    assert admission.failures == 6


@pytest.mark.parametrize(
    "reason",
    [
        "a frame of {} bytes; the limit is 65536",
        "a ClientHello of {} bytes; the limit is 16384",
        "the algorithm {} is not allowed",
        "an unexpected request {} during SASL authentication",
        "SaslHandshake v{} is not supported",
    ],
)
def test_a_number_that_a_client_chooses_makes_no_event_of_its_own(reason: str) -> None:
    world = World()
    for number in range(2 * MOST_KEYS):
        world.admission.refused(SESSION, reason.format(number))
    world.admission.refused(_session("10.0.0.2"), "wrong password: 'alice'")
    assert world.reasons == [reason.format(0), "wrong password: 'alice'"]


def test_a_flood_from_many_addresses_does_not_hide_another_reason() -> None:
    world = World()
    for number in range(2 * MOST_KEYS):
        world.admission.refused(_session(f"2001:db8::{number:x}"), "plain bytes on a TLS listener")
    world.admission.refused(SESSION, "wrong password: 'alice'")
    # An event for each address that is remembered, one for all others, and that of the password.
    assert len(world.reasons) == MOST_KEYS + 2
    assert (world.peers[-1], world.reasons[-1]) == ("/10.0.0.1", "wrong password: 'alice'")
