"""Suspend this broker's leaders and coordinators while its registration may have ended.

Another broker may then lead, so this one acknowledges nothing and serves nothing, neither from logs
nor from memory: requests get NOT_LEADER_OR_FOLLOWER and NOT_COORDINATOR. Records that were
acknowledged with acks=all are safe without this suspension (`cluster/authority.py`), but acks=1,
reads and responses from memory need it.

A timer is not enough: after a pause of the process, its loop may serve sockets before timers. So
the clock is checked first for every request, every response of another broker, and every finished
flush. It is also checked for each call between coordinators, even within this broker, because the
result may come from memory. It is also checked for each timer of a request: when the timer ends, a
parked Fetch reads the log, and a Produce may append.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from oncelog_server.cluster.authority import Authority
from oncelog_server.deferred import Unheard
from oncelog_server.network.listener import Requests
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.requests.response import EncodedResponse
from oncelog_server.requests.session import Session
from oncelog_server.timers import Timer, Timers

log = structlog.get_logger("oncelog.cluster")


class SelfFencing:
    """Suspends `partitions` while `authority` is not valid. `boottime_ms` is its clock.
    `still_leads` returns True if the newest metadata image names this broker as the leader of a
    partition in the partition's leader epoch: with many partitions, the changes of an image are not
    all made at once."""

    def __init__(
        self,
        authority: Authority,
        partitions: Partitions,
        timers: Timers,
        boottime_ms: Callable[[], int],
        still_leads: Callable[[Partition], bool],
    ) -> None:
        self._authority = authority
        self._partitions = partitions
        self._timers = timers
        self._boottime_ms = boottime_ms
        self._still_leads = still_leads
        self._timer: Timer | None = None
        self._was_valid = False
        authority.on_change = self.check
        self.check()

    def check(self) -> None:
        """Suspend the partitions if the authority has ended, resume them if it has begun. The
        exceptions of waiting requests go to `Unheard`, because the caller may be a renewal of the
        registration.
        """
        now_ms = self._boottime_ms()
        is_valid = self._authority.valid(now_ms)
        if is_valid and self._timer is None:
            self._wait(self._authority.valid_until_ms - now_ms)
        if is_valid is not self._partitions.is_suspended:
            return
        if is_valid:
            if self._was_valid:
                log.warning("the broker leads again")
            self._was_valid = True
            try:
                self._partitions.resume(self._still_leads)
            except Exception as failure:
                Unheard.give([failure])
            return
        if self._was_valid:
            log.warning("the broker leads no partition until its registration is renewed")
        self._partitions.suspend()

    def _wait(self, delay_ms: int) -> None:
        self._timer = self._timers.call_later(delay_ms, self._elapsed)

    def _elapsed(self) -> None:
        # Usually, keepalives have moved the end of the authority since the timer was set.
        self._timer = None
        self.check()

    def stop(self) -> None:
        """Stop the checks of the authority. The partitions stay as they are."""
        self._authority.on_change = _do_nothing
        if self._timer is not None:
            self._timer.cancel()


def _do_nothing() -> None:
    pass


class CheckedRequests:
    """Looks at the authority before each request."""

    def __init__(self, requests: Requests, fencing: SelfFencing) -> None:
        self._requests = requests
        self._check = fencing.check

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        """Serve a request. Raises ProtocolError to close the connection."""
        self._check()
        return self._requests.serve(frame, session)


class CheckedTimers:
    """Looks at the authority before each delayed callback of a request."""

    def __init__(self, timers: Timers, fencing: SelfFencing) -> None:
        self._check = fencing.check
        self._timers = timers
        self.call_soon = timers.call_soon

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        def elapsed() -> None:
            self._check()
            callback()

        return self._timers.call_later(delay_ms, elapsed)
