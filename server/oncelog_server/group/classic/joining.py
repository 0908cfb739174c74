"""A JoinGroup request as a value, for the effects that carry it out."""

from __future__ import annotations

import msgspec

from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncelog_server.deferred import Deferred
from oncelog_server.group.classic.member import Parked, Protocols
from oncelog_server.group.moment import Caller


class Joining(msgspec.Struct, frozen=True):
    """A JoinGroup request with the id of its member. `parked` is the response, which waits for the
    end of the join phase."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int
    parked: Parked[JoinGroupResponse]
    by: Caller


def joining_of(request: JoinGroupRequest, member_id: str, caller: Caller) -> Joining:
    """Return the request and a response to park. `member_id` is the id that the member has or
    gets."""
    return Joining(
        group_id=request.group_id,
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols=protocols_of(request),
        rebalance_timeout_ms=_rebalance_timeout_ms(request, caller),
        session_timeout_ms=request.session_timeout_ms,
        parked=Parked(Deferred(), caller.api_version),
        by=caller,
    )


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """Return the protocols of the request, in the member's order of preference."""
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols)


def _rebalance_timeout_ms(request: JoinGroupRequest, caller: Caller) -> int:
    """Return the rebalance timeout of the request. Version 0 has no rebalance timeout, so the
    session timeout takes its place."""
    if caller.api_version == 0:
        return request.session_timeout_ms
    return max(request.rebalance_timeout_ms, 0)
