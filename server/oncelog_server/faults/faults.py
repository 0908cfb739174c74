"""The faults of a broker that was started with `--allow-faults`.

Environment variables set them at the start: ONCELOG_FAIL_AT, ONCELOG_SYNC_DELAY_MS,
ONCELOG_FULL_FOR. The control socket (`control.py`) changes them later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Final

from oncelog_server.faults.fault_register import FaultRegister
from oncelog_server.faults.full_disk import FullDisk
from oncelog_server.faults.request_rules import RequestRules
from oncelog_server.faults.requested_topics import TopicName
from oncelog_server.faults.shifted_clock import ShiftedClock, ShiftedTimers
from oncelog_server.faults.trap import Trap, kill_self
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
    ahead of the system's clocks. `register` has the ids of the faults.
    """

    def __init__(
        self, trap: Trap | None = None, sync_delay_ms: int = 0, full_disk: FullDisk | None = None
    ) -> None:
        self.trap = trap
        self.sync_delay_ms = sync_delay_ms
        self.full_disk = full_disk or FullDisk()
        self.register = FaultRegister()
        self.rules = RequestRules(self.register)
        self.clock = ShiftedClock()
        self._timers: ShiftedTimers | None = None
        # The last fault of each kind with one fault at a time, by its id, and how it ends.
        self._single: dict[str, tuple[str, Callable[[], None]]] = {}

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

    def set_trap(self, point: str) -> str:
        """Set the fail point `name` or `name:n`, instead of an earlier fail point. Return the id of
        the fault. Raises UnknownFailPoint."""
        fault_id = self.register.new_id()

        def spring(name: str, count: int) -> None:
            try:
                self.register.note_met(fault_id)
            finally:
                kill_self(name, count)

        self.trap = Trap.parse(point, "fail point ", spring)
        return self._replace("trap", fault_id, self._remove_trap)

    def delay_syncs(self, ms: int) -> str:
        """Let every fsync take `ms` longer, instead of an earlier delay. Return the id of the
        fault."""
        self.sync_delay_ms = ms
        return self._replace("delay", self.register.new_id(), self._end_delay)

    def fill_disk(self, patterns: tuple[str, ...]) -> str:
        """Let the disk be full for files that match a pattern, instead of earlier patterns. Return
        the id of the fault."""
        self.full_disk.patterns = patterns
        return self._replace("disk", self.register.new_id(), self._empty_disk)

    def end(self, fault_id: str) -> None:
        """End the fault with this id. Nothing happens if it is over, if a later fault has replaced
        it, or if it was a fault of an earlier process."""
        self.rules.remove(fault_id)
        for kind, (single_id, end) in list(self._single.items()):
            if single_id == fault_id:
                del self._single[kind]
                end()

    def clear(self) -> None:
        """End all faults. Held requests continue. The clocks keep their time."""
        self._single.clear()
        self._remove_trap()
        self._end_delay()
        self._empty_disk()
        self.rules.clear()

    @property
    def initial_point(self) -> str | None:
        """Return the fail point that the environment has set and that is still in effect. It has no
        id."""
        return None if self.trap is None or "trap" in self._single else self.trap.name

    def _replace(self, kind: str, fault_id: str, end: Callable[[], None]) -> str:
        """Note the new fault of a kind. Return its id."""
        self._single[kind] = fault_id, end
        return fault_id

    def _remove_trap(self) -> None:
        self.trap = None

    def _end_delay(self) -> None:
        self.sync_delay_ms = 0

    def _empty_disk(self) -> None:
        self.full_disk.patterns = ()
