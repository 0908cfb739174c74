"""What each client has used of a quota, for a limited number of clients."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final, Generic, TypeVar

from oncelog_server.quotas.limits import FoundLimit

M = TypeVar("M")

# The use of a client is forgotten after this time without a request, as in Kafka.
FORGOTTEN_AFTER_MS: Final = 3_600_000
# Maximum number of clients of one quota. A client may send a new client id with each request, and
# four quotas with that number of clients take less than 64 MiB.
MAX_CLIENTS: Final = 16_384
# A longer key, which a client may choose, is replaced by its hash.
_LONGEST_KEY: Final = 128


class _Used(Generic[M]):
    __slots__ = ("last_ms", "meter")

    def __init__(self, meter: M) -> None:
        self.meter = meter
        self.last_ms = 0


class Usage(Generic[M]):
    """The meter of each client, which measures its use.

    The meters are in two generations. A meter that is used moves to the younger one. When that is
    full, the older one is dropped. This costs a used meter one look-up, and forgets the meters that
    were not used for the longest time.
    """

    def __init__(self, new_meter: Callable[[], M]) -> None:
        self._new_meter = new_meter
        self._young: dict[str, _Used[M]] = {}
        self._old: dict[str, _Used[M]] = {}
        self._began_ms = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def meter(self, found: FoundLimit, now_ms: int) -> M:
        """Return the meter of the clients that share a limit."""
        # The length tells where the user ends, because both may have any characters.
        key = f"{len(found.user)} {found.user}{found.client_id}"
        used = self._young.get(key)
        if used is None or now_ms - used.last_ms > FORGOTTEN_AFTER_MS:
            used = self._rarely_used(key, now_ms)
        used.last_ms = now_ms
        return used.meter

    def _rarely_used(self, key: str, now_ms: int) -> _Used[M]:
        if len(key) > _LONGEST_KEY:
            key = blake2b(key.encode("utf-8", "surrogatepass")).hexdigest()
        if len(self._young) >= MAX_CLIENTS // 2 or now_ms - self._began_ms > FORGOTTEN_AFTER_MS:
            self._old, self._young = self._young, {}
            self._began_ms = now_ms
        used = self._young.get(key) or self._old.pop(key, None)
        if used is None or now_ms - used.last_ms > FORGOTTEN_AFTER_MS:
            used = _Used(self._new_meter())
        self._young[key] = used
        return used
