"""The events of the clients that a listener refuses."""

from __future__ import annotations

from typing import Any

from oncelog_server.network.secured_admission import SecuredAdmission
from oncelog_server.requests.session import Session
from oncelog_server.security.audit import BoundedEvents
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.security.resources import ANONYMOUS

SESSION = Session(ANONYMOUS, "10.0.0.1", "EXTERNAL", lambda: False)


def test_a_reason_does_not_hide_another_one_of_the_same_address() -> None:
    """A flood of one kind, with any names, is one event."""
    logged: list[str] = []

    def log(count: int, **fields: Any) -> None:
        logged.append(fields["reason"])

    events = BoundedEvents(log, lambda: 0)
    admission = SecuredAdmission(
        "EXTERNAL", SecurityProtocol.SASL_SSL, events, max_unauthenticated_bytes=1024
    )

    admission.refused(SESSION, "plain bytes on a TLS listener")
    for user in ("alice", "bob", "carol"):
        admission.refused(SESSION, f"wrong password: {user!r}")
    for mechanism in ("A", "B"):
        admission.refused(SESSION, f"the SASL mechanism {mechanism!r} is not enabled")

    assert logged == [
        "plain bytes on a TLS listener",
        "wrong password: 'alice'",
        "the SASL mechanism 'A' is not enabled",
    ]
    assert admission.failures == 6
