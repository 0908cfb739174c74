"""A quota of clients: its limits, and the use of each client."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_protocol.types import INT32_MAX
from oncelog_server.quotas.limits import Limits
from oncelog_server.quotas.mutations import MutationPermits
from oncelog_server.quotas.rates import Rate
from oncelog_server.quotas.token_bucket import TokenBucket
from oncelog_server.quotas.usage import Usage
from oncelog_server.quotas.windows import Windows


class RateQuota:
    """A quota on a rate (KIP-13, KIP-124), as Kafka's ClientQuotaManager. `user` is the name of a
    principal. Times are milliseconds of a monotonic clock."""

    def __init__(self, limits: Limits, windows: Windows, most_throttle_ms: int = INT32_MAX) -> None:
        self._windows = windows
        self._most_throttle_ms = most_throttle_ms
        self.usage = Usage(limits, Rate)

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Add an amount, which is negative to take an earlier one back. Return the throttle time in
        ms, 0 within the limit."""
        used = self.usage.of(user, client_id, now_ms)
        if used is None:
            return 0
        throttle_ms = used.meter.throttle_ms(value, used.limit, now_ms, self._windows)
        return throttle_ms and min(throttle_ms, self._most_throttle_ms)

    def most_at_once(self, user: str, client_id: str) -> int:
        """Return the largest amount that a client without any use may have at once. A larger amount
        would always be throttled, so a client could never get it."""
        found = self.usage.limits.of(user, client_id)
        if found is None:
            return INT32_MAX
        return int(min(found.limit * self._windows.whole_s, INT32_MAX))

    def never_fits(self, user: str, client_id: str, value: float) -> bool:
        """Return True if an amount exceeds the limit however long the client waits before it."""
        found = self.usage.limits.of(user, client_id)
        return found is not None and value > found.limit * self._windows.longest_s


class MutationQuota:
    """The quota `controller_mutation_rate` on partitions that are created or deleted (KIP-599), as
    Kafka's ControllerMutationQuotaManager."""

    def __init__(self, limits: Limits, windows: Windows, now_ms: Callable[[], int]) -> None:
        self._windows = windows
        self._now_ms = now_ms
        self.usage = Usage(limits, TokenBucket)

    def permits(self, user: str, client_id: str, *, is_strict: bool) -> MutationPermits | None:
        """Return the permits of one request, None if no limit holds for its client."""
        used = self.usage.of(user, client_id, self._now_ms())
        if used is None:
            return None
        return MutationPermits(
            used.meter, used.limit, self._windows, self._now_ms, is_strict=is_strict
        )
