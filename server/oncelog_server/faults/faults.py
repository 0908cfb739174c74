"""Faults by environment variables: ONCELOG_FAIL_AT, ONCELOG_SYNC_DELAY_MS, ONCELOG_FULL_FOR."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Final

from oncelog_server.faults.full_disk import FullDisk
from oncelog_server.faults.trap import Trap
from oncelog_server.faults.watched_files import WatchedFiles
from oncelog_server.faults.watched_requests import WatchedRequests
from oncelog_server.network.listener import Requests
from oncelog_server.operating_system.os_files import CallOnLoop

FAIL_AT: Final = "ONCELOG_FAIL_AT"
SYNC_DELAY_MS: Final = "ONCELOG_SYNC_DELAY_MS"
FULL_FOR: Final = "ONCELOG_FULL_FOR"


class Faults:
    """The faults of a broker. This class builds the files and the server of requests that inject
    them."""

    def __init__(
        self, trap: Trap | None, sync_delay_ms: int = 0, full: FullDisk | None = None
    ) -> None:
        self._trap = trap
        self._full = full
        self._sync_delay_ms = sync_delay_ms

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Faults:
        """Return the faults that the variables name.

        Raises UnknownFailPoint, and ValueError if the delay is not a number.
        """
        point = environment.get(FAIL_AT)
        control = environment.get(FULL_FOR)
        return cls(
            Trap.parse(point) if point else None,
            int(environment.get(SYNC_DELAY_MS) or 0),
            FullDisk(control) if control else None,
        )

    def files(
        self, root: str, *, executor: Executor, call_on_loop: CallOnLoop, descriptor_limit: int
    ) -> WatchedFiles:
        return WatchedFiles(
            root,
            executor=executor,
            call_on_loop=call_on_loop,
            descriptor_limit=descriptor_limit,
            trap=self._trap,
            sync_delay_s=self._sync_delay_ms / 1000,
            full=self._full,
        )

    def requests(self, requests: Requests) -> Requests:
        return requests if self._trap is None else WatchedRequests(requests, self._trap)
