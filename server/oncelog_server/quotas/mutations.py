"""The permits of one request that creates or deletes partitions (KIP-599)."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_protocol.errors import ErrorCode
from oncelog_server.quotas.token_bucket import TokenBucket
from oncelog_server.quotas.windows import Windows
from oncelog_server.refusal import Refused


class MutationPermits:
    """Takes the tokens of one request's topics. A strict request is refused while the number of
    tokens is negative. Any other request is accepted, and throttled afterwards.

    A decision on metadata may be made several times, so the first outcome of a topic stays.
    """

    def __init__(
        self,
        bucket: TokenBucket,
        limit: float,
        windows: Windows,
        now_ms: Callable[[], int],
        *,
        is_strict: bool,
    ) -> None:
        self._bucket = bucket
        self._limit = limit
        self._windows = windows
        self._now_ms = now_ms
        self._is_strict = is_strict
        # By topic: True if the topic has its tokens.
        self._accepted: dict[str, bool] = {}
        self._throttle_ms = 0
        self._measured_ms = 0

    def take(self, topic: str, partitions: int) -> None:
        """Take a token for each partition that is created or deleted. Raises Refused with
        THROTTLING_QUOTA_EXCEEDED, and takes none, if a strict request exceeds its quota."""
        accepted = self._accepted.get(topic)
        if accepted is None:
            accepted = self._accepted[topic] = self._take(partitions)
        if not accepted:
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    def _take(self, partitions: int) -> bool:
        bucket, limit, windows = self._bucket, self._limit, self._windows
        now_ms = self._now_ms()
        if not self._is_strict:
            bucket.record(partitions, limit, now_ms, windows)
        if bucket.measure(limit, now_ms, windows) < 0:
            self._throttle_ms = bucket.throttle_ms(limit, now_ms, windows)
            self._measured_ms = now_ms
            return not self._is_strict
        if self._is_strict:
            bucket.record(partitions, limit, now_ms, windows)
        return True

    def throttle_ms(self) -> int:
        """Return the rest of the throttle time in ms, 0 if the quota was not exceeded."""
        return max(0, self._throttle_ms - (self._now_ms() - self._measured_ms))
