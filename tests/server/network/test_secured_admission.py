"""The events of the clients that a listener refuses."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_server.network.admissions import MOST_REASONS
from oncelog_server.network.secured_admission import SecuredAdmission
from oncelog_server.requests.session import Session
from oncelog_server.security.audit import MOST_KEYS, REPEAT_MS, GroupedEvents
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.security.resources import ANONYMOUS


def _session(host: str) -> Session:
    return Session(ANONYMOUS, host, "EXTERNAL", lambda: False)


SESSION = _session("10.0.0.1")


class World:
    """A listener, and the events that it logs."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.peers: list[str | None] = []
        self.counts: list[tuple[str, int]] = []
        self.now_ms = 0
        self.events = GroupedEvents(self._log, lambda: self.now_ms, most_variants=MOST_REASONS)
        self.admission = SecuredAdmission(
            "EXTERNAL", SecurityProtocol.SASL_SSL, self.events, max_unauthenticated_bytes=1024
        )

    def _log(self, count: int, **fields: Any) -> None:
        self.reasons.append(fields["reason"])
        self.peers.append(fields.get("peer"))
        self.counts.append((fields["reason"], count))


def test_a_reason_does_not_hide_another_one_of_the_same_address() -> None:
    world = World()
    reasons = [
        "plain bytes on a TLS listener",
        "wrong password: 'alice'",
        "wrong password: 'bob'",
        "the SASL mechanism 'A' is not enabled",
        "the SASL mechanism 'B' is not enabled",
    ]
    for reason in reasons:
        world.admission.refused(SESSION, reason)
    assert world.reasons == reasons
    assert world.admission.failures == len(reasons)


@pytest.mark.parametrize("ends_by", ["a stop", "another event"])
def test_a_count_is_of_the_user_that_the_event_names(ends_by: str) -> None:
    world = World()
    for user in ("alice", "bob", "admin", "bob", "admin", "admin"):
        world.admission.refused(SESSION, f"wrong password: {user!r}")
    del world.counts[:]
    if ends_by == "a stop":
        world.events.flush()
        assert world.counts == [("wrong password: 'bob'", 1), ("wrong password: 'admin'", 2)]
    else:
        world.now_ms = REPEAT_MS
        world.admission.refused(SESSION, "wrong password: 'bob'")
        assert world.counts == [("wrong password: 'bob'", 2), ("wrong password: 'admin'", 2)]


def test_a_flood_of_names_is_bounded_and_names_no_user_falsely() -> None:
    world = World()
    flood = 10 * MOST_KEYS
    for number in range(flood):
        world.admission.refused(SESSION, f"wrong password: 'user{number}'")
    named = [f"wrong password: 'user{number}'" for number in range(MOST_REASONS)]
    assert world.reasons == named
    world.events.flush()
    assert world.counts[-1] == ("wrong password (several)", flood - MOST_REASONS)
    # In the next minute further users are named.
    world.now_ms = REPEAT_MS
    world.admission.refused(SESSION, "wrong password: 'bob'")
    assert world.counts[-1] == ("wrong password: 'bob'", 1)


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
    world.events.flush()
    # The common event of many addresses names none of them.
    assert (world.peers[-1], world.counts[-1][1]) == (None, MOST_KEYS - 1)
