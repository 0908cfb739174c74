"""The time for which a broker may act on its registration.

Safety does not rest on this time: each write of metadata compares revisions, and acks=all waits for
followers that follow the present leader. It limits how long a broker that does not know yet that it
is fenced still responds to acks=0 and acks=1, and serves reads and coordinators from memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# The fraction by which the store's clock may run faster than the broker's.
CLOCK_DRIFT: Final = 0.01
# Covers the work between the check and the response.
MARGIN_MS: Final = 200
_NEVER: Final = -1
_FOR_EVER: Final = 2**63 - 1


def _do_nothing() -> None:
    pass


class Authority:
    """Valid from a registration or keepalive until its lease may have ended.

    Times are in ms of `Clock.boottime_ms`: that clock also counts while the computer sleeps.
    `on_change` is called after each change of the time.
    """

    def __init__(self) -> None:
        self.valid_until_ms = _NEVER
        self.on_change: Callable[[], None] = _do_nothing

    def renew(self, sent_ms: int, ttl_ms: int) -> None:
        """Extend the time after a keepalive that was sent at `sent_ms`. The lease cannot have ended
        before `sent_ms + ttl_ms` of the store's clock. A `ttl_ms` of 0 stands for a lease that ends
        with the process."""
        until = sent_ms + int(ttl_ms * (1 - CLOCK_DRIFT)) - MARGIN_MS if ttl_ms else _FOR_EVER
        self.valid_until_ms = max(self.valid_until_ms, until)
        self.on_change()

    def end(self) -> None:
        """End the time at once: the lease has ended."""
        self.valid_until_ms = _NEVER
        self.on_change()

    def valid(self, now_ms: int) -> bool:
        """Return True if the lease certainly lives at `now_ms`."""
        return now_ms < self.valid_until_ms
