"""The throttle times of requests by all quotas of a broker. A quota that is not defined for any
client is None, so a request only reads one attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog_protocol.types import INT32_MAX
from oncelog_server.quotas.windows import WINDOWS, Windows

if TYPE_CHECKING:
    # A broker without quotas imports none of these.
    from oncelog_server.quotas.client_quota import MutationQuota, RateQuota
    from oncelog_server.quotas.entities import Entity, EntityLimits
    from oncelog_server.quotas.mutations import MutationPermits

# A whole second of the event loop is 100 %.
_PERCENT_PER_NS: Final = 100.0 / 1_000_000_000


class ThrottledFetch(NamedTuple):
    """The throttle time of a Fetch in ms. `is_empty`: the response must be empty."""

    throttle_ms: int
    is_empty: bool


class QuotaGate:
    """The throttle times of requests. `user` is the name of the principal. `now_ms` is the time of
    a monotonic clock; the quota on mutations reads the clock itself.

    `is_enforced` is True if any quota other than that on new connections is defined. The methods
    may also be called if it is False. `addresses` is the quota on new connections, None if none is
    defined.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        windows: Windows = WINDOWS,
        mutation_windows: Windows = WINDOWS,
    ) -> None:
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._now_ms = now_ms
        self._quotas: Mapping[Entity, EntityLimits] = {}
        self.produce: RateQuota | None = None
        self.fetch: RateQuota | None = None
        self.request: RateQuota | None = None
        self.mutation: MutationQuota | None = None
        self.addresses: RateQuota | None = None
        self.is_enforced = False

    def follow(self, quotas: Mapping[Entity, EntityLimits]) -> None:
        """Take over the definitions of an image. The use of clients is kept as long as their quota
        is defined for any client."""
        if quotas is self._quotas or not (quotas or self._quotas):
            return
        self._quotas = quotas
        from oncelog_server.quotas.definitions import Definitions

        defined = Definitions(quotas, self._windows)
        self.produce = defined.produce(self.produce)
        self.fetch = defined.fetch(self.fetch)
        self.request = defined.request(self.request)
        self.mutation = defined.mutation(self.mutation, self._mutation_windows, self._now_ms)
        self.addresses = defined.addresses(self.addresses)
        self.is_enforced = any((self.produce, self.fetch, self.request, self.mutation))

    def after_produce(self, user: str, client_id: str, request_bytes: int, now_ms: int) -> int:
        """Count a Produce of this size. Return its throttle time in ms (`producer_byte_rate`)."""
        if self.produce is None:
            return 0
        return self.produce.record(user, client_id, request_bytes, now_ms)

    def fetch_budget(self, user: str, client_id: str) -> int:
        """Return the maximum number of bytes that one Fetch of a consumer may read."""
        return INT32_MAX if self.fetch is None else self.fetch.most_at_once(user, client_id)

    def after_fetch(
        self, user: str, client_id: str, response_bytes: int, request_throttle_ms: int, now_ms: int
    ) -> ThrottledFetch:
        """Count the response of a Fetch (`consumer_byte_rate`). `request_throttle_ms` is the
        throttle time by the quota on requests.

        The response of a throttled Fetch is empty, and its bytes do not count. The response with a
        very large batch would always be throttled, and in Kafka a consumer never gets beyond such a
        batch. Here a client that has used nothing else gets it, and waits afterwards.
        """
        if self.fetch is None:
            return ThrottledFetch(request_throttle_ms, request_throttle_ms > 0)
        fetch_ms = self.fetch.record(user, client_id, response_bytes, now_ms)
        throttle_ms = max(request_throttle_ms, fetch_ms)
        if not throttle_ms:
            return ThrottledFetch(0, False)
        without_ms = self.fetch.record(user, client_id, -response_bytes, now_ms)
        if not self.fetch.never_fits(user, client_id, response_bytes):
            return ThrottledFetch(throttle_ms, True)
        if without_ms or request_throttle_ms:
            return ThrottledFetch(max(without_ms, request_throttle_ms), True)
        self.fetch.record(user, client_id, response_bytes, now_ms)
        return ThrottledFetch(throttle_ms, False)

    def after_request(self, user: str, client_id: str, handler_ns: int, now_ms: int) -> int:
        """Count the time (ns) that a request has taken on the event loop. Return its throttle time
        in ms, at most one window (`request_percentage`)."""
        if self.request is None:
            return 0
        return self.request.record(user, client_id, handler_ns * _PERCENT_PER_NS, now_ms)

    def after_connection(self, host: str, now_ms: int) -> int:
        """Count a new connection of an address (`connection_creation_rate`). Return 0 to serve it.
        Otherwise return the time (ms) after which it is to be closed; it then does not count."""
        if self.addresses is None:
            return 0
        throttle_ms = self.addresses.record("", host, 1.0, now_ms)
        if throttle_ms:
            self.addresses.record("", host, -1.0, now_ms)
        return throttle_ms

    def permits(self, user: str, client_id: str, *, is_strict: bool) -> MutationPermits | None:
        """Return the permits of a request that creates or deletes partitions, None without a limit
        (`controller_mutation_rate`)."""
        if self.mutation is None:
            return None
        return self.mutation.permits(user, client_id, is_strict=is_strict)
