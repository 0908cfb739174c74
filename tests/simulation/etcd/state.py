"""The state that all members of a simulated etcd share: keys, leases, users, and the alarm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context

from tests.simulation.etcd.failures import NO_SPACE, EtcdFailure
from tests.simulation.etcd.kv import Kv, Put
from tests.simulation.etcd.leases import Lease, Leases
from tests.simulation.etcd.users import Users


class State:
    """The state. `clock` returns seconds. Without a loop, the caller ends the leases itself
    (`end_due_leases`)."""

    def __init__(
        self,
        clock: Callable[[], float],
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        revision: int = 1,
        passwords: Mapping[str, str] | None = None,
    ) -> None:
        self._now = clock
        self._ahead_s = 0.0
        self._loop = loop
        # The timers belong to no member, so that leases also end after the death of a member.
        self._context = Context()
        self._timer: asyncio.TimerHandle | None = None
        self.leases = Leases(self.clock)
        self.kv = Kv(self.leases, revision)
        self.users = Users(self.clock, passwords or {})
        self.term = 2
        # etcd's alarm NOSPACE: the quota of its database is used up.
        self.is_full = False
        # Called after the end of each lease.
        self.on_lease_end: list[Callable[[], None]] = []

    def clock(self) -> float:
        return self._now() + self._ahead_s

    def advance(self, seconds: float) -> None:
        """Set the clock ahead, and end the leases that are due then."""
        self._ahead_s += seconds
        self.end_due_leases()

    def check_space(self) -> None:
        """Raise EtcdFailure if the alarm is on."""
        if self.is_full:
            raise EtcdFailure(NO_SPACE)

    def put(self, key: bytes, value: bytes) -> int:
        """Write a key as another client of etcd. Return the revision."""
        return self.kv.txn((), [Put(key, value)], ()).revision

    # Leases.

    def grant(self, ttl_s: int, lease_id: int = 0) -> Lease:
        lease = self.leases.grant(ttl_s, lease_id)
        self._arm()
        return lease

    def end_lease(self, lease_id: int) -> None:
        """End a lease and delete its keys. Raises EtcdFailure if there is no such lease."""
        self.kv.delete(self.leases.remove(lease_id))
        for ended in list(self.on_lease_end):
            ended()

    def end_due_leases(self) -> None:
        for lease in self.leases.due():
            self.end_lease(lease.id)
        self._arm()

    def elect(self) -> None:
        """Elect a new leader, which gives each lease its full TTL."""
        self.term += 1
        self.leases.renew_all()
        self._arm()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        look_s = self.leases.next_look_s()
        if look_s is not None:
            delay_s = max(look_s - self.clock(), 0.0)
            self._timer = self._loop.call_later(delay_s, self.end_due_leases, context=self._context)
