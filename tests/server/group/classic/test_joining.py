"""A JoinGroup request as a value."""

from __future__ import annotations

import pytest

from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog_server.group.classic.joining import joining_of
from oncelog_server.group.moment import Caller

PROTOCOLS = [
    JoinGroupRequestProtocol(name="range", metadata=b"r"),
    JoinGroupRequestProtocol(name="sticky", metadata=b"s"),
]


@pytest.mark.parametrize(
    ("version", "asked_ms", "rebalance_ms"), [(0, -1, 10_000), (1, 60_000, 60_000), (9, -1, 0)]
)
def test_a_version_without_a_rebalance_timeout_has_the_session_timeout(
    version: int, asked_ms: int, rebalance_ms: int
) -> None:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=asked_ms,
        protocol_type="consumer",
        protocols=PROTOCOLS,
    )
    caller = Caller(now_ms=1, wall_ms=2, api_version=version)
    joining = joining_of(request, "a", caller)
    assert (joining.rebalance_timeout_ms, joining.session_timeout_ms) == (rebalance_ms, 10_000)
    assert (joining.member_id, joining.by, joining.parked.api_version) == ("a", caller, version)
    assert joining.protocols == (("range", b"r"), ("sticky", b"s"))
    assert not joining.parked.answer.done
