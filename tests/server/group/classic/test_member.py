"""A member as a value: its successor, and the protocol that members prefer."""

from __future__ import annotations

import pytest

from oncelog_server.deferred import Deferred
from oncelog_server.group.classic.member import Member, Parked, preferred_protocol


def member(member_id: str, *protocols: str) -> Member:
    return Member(
        member_id=member_id,
        group_instance_id="i",
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=2,
        session_timeout_ms=1,
        protocol_type="consumer",
        protocols=tuple((name, b"") for name in protocols),
        assignment=b"orders-0",
    )


def test_a_successor_has_all_but_the_id_and_the_waiting_responses() -> None:
    old = member("a", "range")
    old.awaiting_join = Parked(Deferred(), 9)
    new = old.successor("b")
    old.member_id, old.awaiting_join = "b", None
    assert new == old


@pytest.mark.parametrize(
    ("protocols", "preferred"),
    [
        ([], None),
        ([("range",)], "range"),
        ([("range", "sticky"), ("sticky", "range")], "range"),
        ([("range", "sticky"), ("sticky", "range"), ("sticky", "range")], "sticky"),
        ([("range", "sticky"), ("sticky",)], "sticky"),
        ([("range",), ("sticky",)], None),
        # A protocol that a member names twice counts once.
        ([("range", "range"), ("sticky",)], None),
        ([("range", "range"), ("range",)], "range"),
    ],
)
def test_the_protocol_that_most_members_prefer(
    protocols: list[tuple[str, ...]], preferred: str | None
) -> None:
    members = [member(f"m{number}", *names) for number, names in enumerate(protocols)]
    assert preferred_protocol(members) == preferred
