"""The recent history of a group: its last generations, and the reason, time and client of each
removal of a member. It is only for the information of operators, and is kept only in memory."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from oncelog_protocol.errors import ErrorCode
from oncelog_server.group.moment import Caller, Moment

# Maximum numbers of generations and of removed members that the history of one group has.
GENERATIONS: Final = 4
DEPARTURES: Final = 32
# Names are limited, so that they cannot fill the memory. A long name is cut, and a long member id
# is not kept.
KEPT_NAME: Final = 256


class Why(Enum):
    """The reasons for which a group continues without a member."""

    NEWER_GENERATION = "the member has not joined the generation after its own"
    LEFT = "the member left, or an administrator removed it"
    SESSION_TIMED_OUT = "the member sent no request within its session timeout"
    MISSED_REBALANCE = "the member did not join or sync while the other members waited for it"
    GROUP_FULL = "group.max.size"
    REPLACED = "another member came with its group instance id"
    UNKNOWN = "the group has never known the member, or has forgotten it"


class Requester(NamedTuple):
    """The client of a request."""

    client_id: str
    client_address: str
    principal: str = ""


class Dismissal(NamedTuple):
    """The reason why a group refuses a member. `at_ms` is wall clock, None if the time is unknown.
    `by` is the client of the request that caused the removal. It is None if no request caused the
    removal, or if the client is unknown."""

    why: Why
    at_ms: int | None = None
    by: Requester | None = None


class Generation(NamedTuple):
    """A generation of a group. `by` is the client that began the rebalance, None if a timer began
    it or the client is unknown."""

    generation_id: int
    at_ms: int
    by: Requester | None


# The reason for refusing a member with this code, if the group does not remember the member.
_BY_CODE: Final = {ErrorCode.FENCED_INSTANCE_ID: Why.REPLACED}


def requester(at: Moment) -> Requester | None:
    """Return the client of the request that caused a decision. Return None if a timer caused it."""
    if not isinstance(at, Caller):
        return None
    return Requester(at.client_id[:KEPT_NAME], at.client_host, at.principal[:KEPT_NAME])


class History:
    """The history of one group."""

    __slots__ = ("_departures", "_generations", "_rebalance_by")

    def __init__(self) -> None:
        self._generations: tuple[Generation, ...] = ()
        # By member id, the oldest first.
        self._departures: dict[str, Dismissal] = {}
        self._rebalance_by: Requester | None = None

    def rebalance_began(self, by: Requester | None) -> None:
        self._rebalance_by = by

    def generation_began(self, generation_id: int, at_ms: int) -> None:
        began = Generation(generation_id, at_ms, self._rebalance_by)
        self._generations = (*self._generations, began)[-GENERATIONS:]
        self._rebalance_by = None

    def departed(self, member_id: str, why: Why, at_ms: int, by: Requester | None = None) -> None:
        if len(member_id) > KEPT_NAME:
            return
        self._departures.pop(member_id, None)
        self._departures[member_id] = Dismissal(why, at_ms, by)
        if len(self._departures) > DEPARTURES:
            del self._departures[next(iter(self._departures))]

    def came_back(self, member_id: str) -> None:
        self._departures.pop(member_id, None)

    def dismissal(self, member_id: str, generation_id: int, code: ErrorCode) -> Dismissal:
        """Return the reason for refusing that member with that code in that generation."""
        departure = self._departures.get(member_id)
        if departure is not None:
            return departure
        if code in _BY_CODE:
            return Dismissal(_BY_CODE[code])
        # The first remembered generation after the member's own is the generation that the member
        # did not join.
        for generation in self._generations:
            if 0 <= generation_id < generation.generation_id:
                return Dismissal(Why.NEWER_GENERATION, generation.at_ms, generation.by)
        return Dismissal(Why.UNKNOWN)
