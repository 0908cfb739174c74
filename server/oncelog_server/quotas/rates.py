"""The rate of one client, measured in windows as Kafka's Rate over SampledStat measures it."""

from __future__ import annotations

from array import array
from typing import Final

from oncelog_server.quotas.windows import Windows, as_throttle_ms

# Time of a purge that is never due.
_NEVER: Final = 1 << 62


class Rate:
    """Amounts in samples, each of which begins at its first event. Times are milliseconds of one
    clock, and never decrease.

    Kafka keeps one more sample than `windows.samples`, because the oldest overlaps the measured
    time. The order of the additions is Kafka's, so that sums of fractions are equal to the last
    bit.
    """

    __slots__ = ("_current", "_oldest_ms", "_purge_ms", "_times", "_values")

    def __init__(self) -> None:
        # The start of each sample and the time of its last event, in turn. An array takes a quarter
        # of the memory of objects, and there is a rate for each client.
        self._times = array("q")
        self._values = array("d")
        self._current = 0
        self._oldest_ms = 0
        # No sample has expired before this time.
        self._purge_ms = _NEVER

    def record(self, value: float, now_ms: int, windows: Windows) -> None:
        """Add an amount, which may be negative."""
        times = self._times
        at = self._current
        if not times:
            self._append(now_ms, windows)
        elif now_ms - times[2 * at] >= windows.length_ms:
            at = self._current = (at + 1) % (windows.samples + 1)
            if at == len(self._values):
                self._append(now_ms, windows)
            else:
                self._reset(at, now_ms)
                self._oldest_ms = min(times[::2])
        self._values[at] += value
        times[2 * at + 1] = now_ms

    def measure(self, now_ms: int, windows: Windows) -> float:
        """Return the rate in amounts a second."""
        if now_ms >= self._purge_ms:
            self._purge(now_ms, windows)
        total = 0.0
        for value in self._values:
            total += value
        return total / (self._window_ms(now_ms, windows) / 1000.0)

    def throttle_ms(self, limit: float, now_ms: int, windows: Windows) -> int:
        """Return for how long (ms) a client must pause so that its rate falls to `limit`, 0 if it
        does not exceed the limit (Kafka's QuotaUtils.throttleTime)."""
        rate = self.measure(now_ms, windows)
        if rate <= limit:
            return 0
        return as_throttle_ms((rate - limit) / limit * self._window_ms(now_ms, windows))

    def _window_ms(self, now_ms: int, windows: Windows) -> int:
        """Return the measured time: since the start of the oldest sample, and at least all windows
        but the current one."""
        elapsed = now_ms - (self._oldest_ms if self._times else now_ms)
        missing = windows.samples - 1 - elapsed // windows.length_ms
        if missing > 0:
            elapsed += missing * windows.length_ms
        return max(elapsed, 1)

    def _append(self, now_ms: int, windows: Windows) -> None:
        if not self._times:
            self._oldest_ms = now_ms
            self._purge_ms = now_ms + windows.expiry_ms
        self._times.append(now_ms)
        self._times.append(now_ms)
        self._values.append(0.0)

    def _reset(self, sample: int, now_ms: int) -> None:
        self._times[2 * sample] = self._times[2 * sample + 1] = now_ms
        self._values[sample] = 0.0

    def _purge(self, now_ms: int, windows: Windows) -> None:
        """Empty the samples without an event for `windows.expiry_ms`. They begin again now."""
        for sample, last_ms in enumerate(self._times[1::2]):
            if now_ms - last_ms >= windows.expiry_ms:
                self._reset(sample, now_ms)
        self._oldest_ms = min(self._times[::2])
        self._purge_ms = min(self._times[1::2]) + windows.expiry_ms
