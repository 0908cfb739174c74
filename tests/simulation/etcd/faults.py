"""The faults of one member of a simulated etcd."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Final

# etcd's timeout of a request: 5 s and two timeouts of an election.
REQUEST_TIMEOUT_S: Final = 7.0
# A member ends the watches that need a leader after this time without a leader.
NO_LEADER_S: Final = 3.0


class Fault(Enum):
    """What happens to one request.

    LOST: carried out, then the connection breaks. DROPPED: the connection breaks, and the request
    is not carried out. HUNG: carried out, and never responded to. TIMED_OUT: carried out, and
    responded to with 503 "request timed out". REFUSED: the same response, and not carried out.
    LATE: the same response, and carried out `late_s` later.
    """

    LOST = "lost"
    DROPPED = "dropped"
    HUNG = "hung"
    TIMED_OUT = "timed out"
    REFUSED = "refused"
    LATE = "late"


class Gate:
    """An open or closed gate. Callers of `passed` wait while it is closed."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    @property
    def is_open(self) -> bool:
        return self._open.is_set()

    def close(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def passed(self) -> None:
        await self._open.wait()


class Faults:
    """The faults of a member. A gate is closed as long as its fault lasts."""

    def __init__(self) -> None:
        # Seconds before a request is carried out.
        self.delay_s = 0.0
        self.late_s = 1.0
        # Closed: the member accepts connections, and responds to nothing, as a stopped process.
        self.awake = Gate()
        # Closed: watches get nothing, although the member responds.
        self.watches = Gate()
        # Closed: the member has no leader.
        self.leader = Gate()
        self._next: dict[str, list[Fault]] = {}

    def add(self, path: str, *faults: Fault) -> None:
        """Let the next requests to `path` (such as `/v3/kv/txn`) have these faults."""
        self._next.setdefault(path, []).extend(faults)

    def end(self) -> None:
        """End all faults."""
        self.delay_s = 0.0
        self._next.clear()
        for gate in (self.awake, self.watches, self.leader):
            gate.open()

    def take(self, path: str) -> Fault | None:
        """Return the fault of a request that begins now."""
        faults = self._next.get(path)
        return faults.pop(0) if faults else None
