"""A histogram of durations, with the quantiles of the last minutes."""

from __future__ import annotations

from typing import Final

# Durations below this number of µs have a bucket each. Above, a power of two has this number of
# buckets, so that a quantile is at most an eighth too high.
_EXACT: Final = 16
_PARTS: Final = 8
_EXACT_BITS: Final = 4
_PART_BITS: Final = 3
# The last bucket begins above 2 hours.
_BUCKETS: Final = _EXACT + (34 - _EXACT_BITS) * _PARTS


class Latencies:
    """`add` counts a duration, and `rotate` drops the durations from before the previous rotation.

    `count` and `total_us` are the number and the sum of all durations since the start.
    """

    __slots__ = ("_before", "_now", "count", "total_us")

    def __init__(self) -> None:
        self.count = self.total_us = 0
        self._now = [0] * _BUCKETS
        self._before = [0] * _BUCKETS

    def add(self, duration_us: int) -> None:
        self.count += 1
        self.total_us += duration_us
        self._now[_bucket(duration_us)] += 1

    def rotate(self) -> None:
        self._before, self._now = self._now, [0] * _BUCKETS

    def quantiles_us(self, quantiles: tuple[float, ...]) -> list[int]:
        """Return the upper end of the bucket of each quantile, in µs; 0 without durations.
        `quantiles` increase."""
        counts = [before + now for before, now in zip(self._before, self._now, strict=True)]
        total = sum(counts)
        found: list[int] = []
        below, bucket = 0, -1
        for quantile in quantiles:
            while below < quantile * total:
                bucket += 1
                below += counts[bucket]
            found.append(_end_of(bucket) if total else 0)
        return found


def _bucket(duration_us: int) -> int:
    if duration_us < _EXACT:
        return max(duration_us, 0)
    exponent = duration_us.bit_length() - 1
    part = (duration_us >> (exponent - _PART_BITS)) - _PARTS
    return min(_EXACT + (exponent - _EXACT_BITS) * _PARTS + part, _BUCKETS - 1)


def _end_of(bucket: int) -> int:
    """Return the largest duration in a bucket."""
    if bucket < _EXACT:
        return max(bucket, 0)
    exponent, part = divmod(bucket - _EXACT, _PARTS)
    return ((_PARTS + part + 1) << (exponent + _EXACT_BITS - _PART_BITS)) - 1
