"""The windows over which the broker measures the use of quotas, and Java's rounding."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from oncelog_protocol.types import INT32_MAX


class Windows(msgspec.Struct, frozen=True):
    """The samples of a rate: their number (`quota.window.num`) and the length of each
    (`quota.window.size.seconds`)."""

    samples: int = 11
    length_ms: int = 1000

    @property
    def expiry_ms(self) -> int:
        """Return the age (ms) at which a sample without a newer event no longer counts."""
        return self.samples * self.length_ms

    @property
    def longest_s(self) -> float:
        """Return the longest time (s) over which an amount can be measured before it expires."""
        return (self.expiry_ms - 1) / 1000

    @property
    def whole_s(self) -> float:
        """Return the length (s) of all windows but the current one."""
        return (self.samples - 1) * self.length_ms / 1000


# Kafka's defaults.
WINDOWS: Final = Windows()


def as_throttle_ms(delay: float) -> int:
    """Return a delay (ms) rounded as Java's Math.round does, at most INT32_MAX.

    Kafka casts a longer delay to an int, and the result may be negative.
    """
    if delay >= INT32_MAX:
        return INT32_MAX
    whole = math.floor(delay)
    return whole + (delay - whole >= 0.5)
