"""The meters of clients, which measure the use of a quota, for a limited number of clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from oncelog_server.quotas.limits import FoundLimit, Limits

M = TypeVar("M")

# The use of a client is forgotten after this time without a request, as in Kafka.
FORGOTTEN_AFTER_MS: Final = 3_600_000
# Maximum number of clients of one quota. A client may send a new client id with each request, and
# four quotas with that number of clients take less than 64 MiB.
MAX_CLIENTS: Final = 12_288
# A longer key, which a client may choose, is replaced by its hash.
_LONGEST_KEY: Final = 128


class Used(Generic[M]):
    """The meter of the clients that share a limit, and the limit."""

    __slots__ = ("last_ms", "limit", "meter")

    def __init__(self, meter: M) -> None:
        self.meter = meter
        self.limit = 0.0
        self.last_ms = 0


class Usage(Generic[M]):
    """The limits of one quota, and the meter of each client that has a limit.

    The meters are in two generations. A meter that is used moves to the younger generation. When
    the younger generation is full, the older one is dropped. So the least recently used meters are
    dropped, and a meter in use costs a single look-up.
    """

    def __init__(self, limits: Limits, new_meter: Callable[[], M]) -> None:
        self._limits = limits
        self._new_meter = new_meter
        self._young: dict[str, Used[M]] = {}
        self._old: dict[str, Used[M]] = {}
        self._began_ms = 0
        # The meters of the younger generation, by user and client id. Clients may share a meter.
        self._by_client: dict[tuple[str, str], Used[M]] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    @property
    def limits(self) -> Limits:
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        """Change the limits. The meters stay."""
        self._limits = limits
        self._by_client.clear()

    def of(self, user: str, client_id: str, now_ms: int) -> Used[M] | None:
        """Return the meter of a client, None if it has no limit."""
        used = self._by_client.get((user, client_id))
        if used is None or now_ms - used.last_ms > FORGOTTEN_AFTER_MS:
            found = self._limits.of(user, client_id)
            if found is None:
                return None
            used = self._look_up(found, now_ms)
            if len(user) + len(client_id) <= _LONGEST_KEY:
                if len(self._by_client) >= MAX_CLIENTS // 2:
                    self._by_client.clear()
                self._by_client[user, client_id] = used
        used.last_ms = now_ms
        return used

    def _look_up(self, found: FoundLimit, now_ms: int) -> Used[M]:
        # The length shows where the user ends, because both may have any characters.
        key = f"{len(found.user)} {found.user}{found.client_id}"
        if len(key) > _LONGEST_KEY:
            from hashlib import blake2b  # loads OpenSSL, which a start of a broker does not need

            key = blake2b(key.encode("utf-8", "surrogatepass")).hexdigest()
        used = self._young.get(key)
        if used is None:
            if len(self._young) >= MAX_CLIENTS // 2 or now_ms - self._began_ms > FORGOTTEN_AFTER_MS:
                self._old, self._young = self._young, {}
                self._by_client.clear()
                self._began_ms = now_ms
            used = self._old.pop(key, None)
        if used is None or now_ms - used.last_ms > FORGOTTEN_AFTER_MS:
            used = Used(self._new_meter())
        used.limit = found.limit
        self._young[key] = used
        return used
