"""A member of a classic group: its successor with another member id, and the members' votes for a
protocol."""

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


def test_a_successor_copies_all_but_the_member_id_and_the_parked_responses() -> None:
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
def test_the_group_prefers_the_common_protocol_with_most_votes(
    protocols: list[tuple[str, ...]], preferred: str | None
) -> None:
    members = [member(f"m{number}", *names) for number, names in enumerate(protocols)]
    assert preferred_protocol(members) == preferred
