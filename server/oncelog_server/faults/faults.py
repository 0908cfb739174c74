"""The faults of a broker that was started with `--allow-faults`.

Environment variables set them at the start: ONCELOG_FAIL_AT, ONCELOG_SYNC_DELAY_MS,
ONCELOG_FULL_FOR. The control socket (`control.py`) changes them later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Final

from oncelog_server.faults.full_disk import FullDisk
from oncelog_server.faults.request_rules import RequestRules
from oncelog_server.faults.requested_topics import TopicName
from oncelog_server.faults.shifted_clock import ShiftedClock, ShiftedTimers
from oncelog_server.faults.trap import Trap
from oncelog_server.faults.watched_files import WatchedFiles
from oncelog_server.faults.watched_requests import WatchedRequests
from oncelog_server.network.listener import Requests
from oncelog_server.operating_system.os_files import CallOnLoop

FAIL_AT: Final = "ONCELOG_FAIL_AT"
SYNC_DELAY_MS: Final = "ONCELOG_SYNC_DELAY_MS"
FULL_FOR: Final = "ONCELOG_FULL_FOR"


class Faults:
    """The faults in effect. This class builds the files, the timers and the server of requests that
    inject them.

    `trap` is a fail point, None without one. Every fsync takes `sync_delay_ms` longer. `full_disk`
    decides for which files the disk is full. `rules` make requests fail or wait. `clock` may be
    ahead of the system's clocks.
    """

    def __init__(
        self, trap: Trap | None = None, sync_delay_ms: int = 0, full_disk: FullDisk | None = None
    ) -> None:
        self.trap = trap
        self.sync_delay_ms = sync_delay_ms
        self.full_disk = full_disk or FullDisk()
        self.rules = RequestRules()
        self.clock = ShiftedClock()
        self._timers: ShiftedTimers | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Faults:
        """Return the faults that the variables name.

        Raises UnknownFailPoint, and ValueError if the delay is not a number.
        """
        point = environment.get(FAIL_AT)
        return cls(
            Trap.parse(point) if point else None,
            int(environment.get(SYNC_DELAY_MS) or 0),
            FullDisk(environment.get(FULL_FOR, "")),
        )

    def files(
        self, root: str, *, executor: Executor, call_on_loop: CallOnLoop, descriptor_limit: int
    ) -> WatchedFiles:
        return WatchedFiles(
            root,
            executor=executor,
            call_on_loop=call_on_loop,
            descriptor_limit=descriptor_limit,
            faults=self,
        )

    def requests(self, requests: Requests, topic_name: TopicName) -> Requests:
        return WatchedRequests(requests, self.rules, lambda: self.trap, topic_name)

    def timers(self, loop: asyncio.AbstractEventLoop) -> ShiftedTimers:
        """Return the broker's timers, which `advance` moves."""
        self._timers = ShiftedTimers(loop, self.clock)
        return self._timers

    def advance(self, ms: int) -> None:
        """Advance the broker's clocks. Timers that are due then run in the next turns of the
        loop."""
        self.clock.shift_ms += ms
        if self._timers is not None:
            self._timers.follow_clock()

    def clear(self) -> list[int]:
        """End all faults. Held requests continue. The clocks keep their time. Return the ids of the
        rules that have applied to no request."""
        self.trap = None
        self.sync_delay_ms = 0
        self.full_disk.patterns = ()
        return self.rules.clear()
