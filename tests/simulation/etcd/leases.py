"""The leases of a simulated etcd. They end by the clock of that etcd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tests.simulation.etcd.failures import (
    LEASE_EXISTS,
    NO_LEASE,
    TTL_TOO_LARGE,
    EtcdFailure,
)

# One and a half timeouts of an election (1 s), in whole seconds (etcd's minLeaseTTL).
MIN_TTL_S: Final = 2
MAX_TTL_S: Final = 9_000_000_000
# etcd looks for ended leases this often. So a lease with TTL 2 ends after 2.0 to 2.5 s.
LOOK_S: Final = 0.5
# Above 2^53, as etcd's own ids are, so that a client that reads an id as a float fails.
FIRST_ID: Final = 7_587_000_000_000_000_001


class Lease:
    def __init__(self, lease_id: int, ttl_s: int, ends_at: float) -> None:
        self.id = lease_id
        self.ttl_s = ttl_s
        self.ends_at = ends_at
        self.keys: set[bytes] = set()


class Leases:
    """The leases by id. `clock` returns seconds. The owner ends the leases that `due` returns."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next_id = FIRST_ID
        self._leases: dict[int, Lease] = {}
        # The lease of each key that has one.
        self._of_keys: dict[bytes, Lease] = {}

    def grant(self, ttl_s: int, lease_id: int = 0) -> Lease:
        """Return a new lease. Raises EtcdFailure if the TTL is too long or the id exists."""
        if ttl_s > MAX_TTL_S:
            raise EtcdFailure(TTL_TOO_LARGE)
        if lease_id in self._leases:
            raise EtcdFailure(LEASE_EXISTS)
        if not lease_id:
            lease_id = self._next_id
            self._next_id += 2
        ttl_s = max(ttl_s, MIN_TTL_S)
        lease = self._leases[lease_id] = Lease(lease_id, ttl_s, self._clock() + ttl_s)
        return lease

    def find(self, lease_id: int) -> Lease | None:
        return self._leases.get(lease_id)

    def all(self) -> list[Lease]:
        return list(self._leases.values())

    def is_due(self, lease: Lease) -> bool:
        return lease.ends_at <= self._clock()

    def remaining_s(self, lease: Lease) -> int:
        return int(lease.ends_at - self._clock())

    def renew(self, lease: Lease) -> None:
        lease.ends_at = self._clock() + lease.ttl_s

    def renew_all(self) -> None:
        """Give each lease its full TTL again, as a new leader of etcd does."""
        for lease in self._leases.values():
            self.renew(lease)

    def check(self, lease_id: int) -> None:
        """Raise EtcdFailure if there is no such lease. 0 is no lease, and passes."""
        if lease_id and lease_id not in self._leases:
            raise EtcdFailure(NO_LEASE)

    def attach(self, key: bytes, lease_id: int) -> None:
        """Detach a key from its lease, and attach it to another unless `lease_id` is 0."""
        before = self._of_keys.pop(key, None)
        if before is not None:
            before.keys.discard(key)
        if lease_id:
            lease = self._of_keys[key] = self._leases[lease_id]
            lease.keys.add(key)

    def remove(self, lease_id: int) -> set[bytes]:
        """Forget a lease. Return its keys, which the caller deletes. Raises EtcdFailure."""
        self.check(lease_id)
        lease = self._leases.pop(lease_id, None)
        if lease is None:
            raise EtcdFailure(NO_LEASE)
        return set(lease.keys)

    def due(self) -> list[Lease]:
        """Return the leases that end now, in the order of their ends."""
        ended = [lease for lease in self._leases.values() if self.is_due(lease)]
        return sorted(ended, key=lambda lease: (lease.ends_at, lease.id))

    def next_look_s(self) -> float | None:
        """Return the time at which etcd will next find an ended lease, or None without a lease."""
        if not self._leases:
            return None
        first = min(lease.ends_at for lease in self._leases.values())
        return math.ceil(first / LOOK_S) * LOOK_S
