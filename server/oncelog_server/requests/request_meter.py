"""Counts one request against the quotas of its client, and computes its throttle time."""

from __future__ import annotations

from collections.abc import Callable
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from oncelog_protocol.apis import ApiKey
from oncelog_server.deferred import Deferred, then
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.slices import ColdSteps

if TYPE_CHECKING:
    # A broker without quotas does not import this module.
    from oncelog_server.quotas.mutations import MutationPermits

T = TypeVar("T")
_NS_PER_MS: Final = 1_000_000
# Requests between brokers (CLUSTER_ACTION) are exempt from the quota on time, as in Kafka.
_EXEMPT: Final = frozenset({ApiKey.WRITE_TXN_MARKERS, ApiKey.COORDINATOR_CALL})


class RequestMeter:
    """The quotas of one request. There is a meter only while a quota of clients is defined.

    `user` is the name of the request's principal, `request_bytes` the size of its frame. `mute`
    holds the connection back for a throttle time. The response itself is sent at once (KIP-219).
    `throttle_ms` is the throttle time of the request, once its response is complete.
    """

    __slots__ = (
        "_began_ns",
        "_gate",
        "_handler_ns",
        "_is_timed",
        "_key",
        "_monotonic_ns",
        "_mute",
        "_permits",
        "client_id",
        "request_bytes",
        "throttle_ms",
        "user",
    )

    def __init__(
        self,
        gate: QuotaGate,
        monotonic_ns: Callable[[], int],
        key: int,
        user: str,
        client_id: str,
        request_bytes: int,
        mute: Callable[[int], None],
    ) -> None:
        self._gate = gate
        self._monotonic_ns = monotonic_ns
        self._key = key
        self.user = user
        self.client_id = client_id
        self.request_bytes = request_bytes
        self._mute = mute
        self.throttle_ms = 0
        self._handler_ns = 0
        # False for a request that is exempt from the quota on time, or was counted already.
        self._is_timed = key not in _EXEMPT
        self._permits: MutationPermits | None = None
        self._began_ns = monotonic_ns()

    # ── What handlers call ───────────────────────────────────────────────────────────────────────

    def exempt(self) -> None:
        """Do not count the time of this request: another broker has sent it."""
        self._is_timed = False

    def permits(self, *, is_strict: bool) -> Callable[[str, int], None] | None:
        """Return the function that takes the permits for a topic, which raises Refused, or None if
        the client has no limit (see MutationPermits.take)."""
        self._permits = self._gate.permits(self.user, self.client_id, is_strict=is_strict)
        return None if self._permits is None else self._permits.take

    @property
    def fetch_budget(self) -> int:
        """The maximum number of bytes that a Fetch of this client may read."""
        return self._gate.fetch_budget(self.user, self.client_id)

    @property
    def counts_fetched_bytes(self) -> bool:
        """True if a limit on the bytes of Fetch responses is defined for any client."""
        return self._gate.fetch is not None

    def is_fetch_refused(self, response_bytes: int) -> bool:
        """Count a Fetch, its response included. Return True if the response must be empty."""
        now_ms = self._monotonic_ns() // _NS_PER_MS
        time_ms = self._after_request(now_ms)
        fetch = self._gate.after_fetch(self.user, self.client_id, response_bytes, time_ms, now_ms)
        self.throttle_ms = fetch.throttle_ms
        return fetch.is_empty

    # ── What the dispatch calls ──────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Measure the time of the handler from now on."""
        self._began_ns = self._monotonic_ns()

    def handled(self, response: Any) -> Any:
        """Return the result of a handler, which is a response, its Deferred, its steps, or None.
        The response gets its throttle time."""
        self._handler_ns += self._monotonic_ns() - self._began_ns
        return self._finished(response)

    def _finished(self, response: Any) -> Any:
        if isinstance(response, Deferred):
            return then(response, self._finished)
        if type(response) is GeneratorType:
            return self._timed(response)
        now_ms = self._monotonic_ns() // _NS_PER_MS
        if response is None and self._key == ApiKey.PRODUCE:
            self._is_timed = False  # acks=0: no response would have the throttle time
        throttle_ms = max(self.throttle_ms, self._after_request(now_ms))
        if self._key == ApiKey.PRODUCE:
            produce_ms = self._gate.after_produce(
                self.user, self.client_id, self.request_bytes, now_ms
            )
            throttle_ms = max(throttle_ms, produce_ms)
        if self._permits is not None:
            throttle_ms = max(throttle_ms, self._permits.throttle_ms())
        self.throttle_ms = throttle_ms
        if throttle_ms:
            if hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = throttle_ms
            self._mute(throttle_ms)
        return response

    def _after_request(self, now_ms: int) -> int:
        if not self._is_timed:
            return 0
        self._is_timed = False
        return self._gate.after_request(self.user, self.client_id, self._handler_ns, now_ms)

    def _timed(self, steps: ColdSteps[Any]) -> ColdSteps[Any]:
        """Return the result of the steps, and measure the time that they take."""
        return self._finished((yield from self.timed(steps)))

    def timed(self, steps: ColdSteps[T]) -> ColdSteps[T]:
        """Measure the time of steps that a handler itself runs. Its response is a Deferred."""
        try:
            while True:
                began_ns = self._monotonic_ns()
                try:
                    cold = next(steps)
                except StopIteration as ended:
                    return ended.value  # type: ignore[no-any-return]  # typeshed has Any
                finally:
                    taken_ns = self._monotonic_ns() - began_ns
                    self._handler_ns += taken_ns
                    # The first steps may run within the handler.
                    self._began_ns += taken_ns
                yield cold
        finally:
            steps.close()
