"""The caller and the time of a decision."""

from __future__ import annotations

import msgspec


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """The time of a decision. `now_ms` is monotonic, for timers. `wall_ms` is the wall clock, for
    records."""

    now_ms: int
    wall_ms: int

    def without_caller(self) -> Moment:
        return Moment(now_ms=self.now_ms, wall_ms=self.wall_ms)


class Caller(Moment, frozen=True, kw_only=True):
    """The client of a request, the version of its API, and the time."""

    api_version: int
    client_id: str = ""
    client_host: str = ""
    # As text, empty for User:ANONYMOUS.
    principal: str = ""
