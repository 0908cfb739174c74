"""What a decision may know of its caller and of the time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """`now_ms` is monotonic and drives timers; `wall_ms` is what records carry."""

    now_ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller(Moment):
    """Who asks, in which version of the API, and when."""

    api_version: int
    client_id: str = ""
    client_host: str = ""
