"""The rate of one client, measured in windows as Kafka's Rate over SampledStat measures it."""

from __future__ import annotations

from array import array

from oncelog_server.quotas.windows import Windows, as_throttle_ms


class Rate:
    """Amounts in samples. A sample begins at its first event. Times are milliseconds of one clock,
    and never decrease.

    Kafka keeps one more sample than `windows.samples`, because the oldest overlaps the measured
    time.
    """

    __slots__ = (
        "_current",
        "_last_ms",
        "_oldest_ms",
        "_purge_ms",
        "_start_ms",
        "_times",
        "_values",
    )

    def __init__(self) -> None:
        # The start of each sample and the time of its last event, in turn. An array takes a quarter
        # of the memory of objects, and there is a rate for each client. The last event of the
        # current sample is in `_last_ms`, because each request changes it.
        self._times = array("q")
        self._values = array("d")
        self._current = 0
        self._start_ms = self._last_ms = self._oldest_ms = 0
        # No sample has expired before this time.
        self._purge_ms = 0

    def throttle_ms(self, value: float, limit: float, now_ms: int, windows: Windows) -> int:
        """Add an amount, which may be negative. Return for how long (ms) the client must pause so
        that its rate falls to `limit` per second, 0 if it does not exceed the limit (Kafka's
        Sensor.record and QuotaUtils.throttleTime)."""
        length_ms = windows.length_ms
        if now_ms - self._start_ms >= length_ms or not self._values:
            self._advance(now_ms, windows)
        self._values[self._current] += value
        self._last_ms = now_ms
        if now_ms >= self._purge_ms:
            self._purge(now_ms, windows)
        # The measured time begins with the oldest sample. It is at least all windows but the
        # current one.
        elapsed_ms = now_ms - self._oldest_ms
        missing = windows.samples - 1 - elapsed_ms // length_ms
        if missing > 0:
            elapsed_ms += missing * length_ms
        elif not elapsed_ms:
            elapsed_ms = 1
        rate = sum(self._values) / (elapsed_ms / 1000.0)
        if rate <= limit:
            return 0
        return as_throttle_ms((rate - limit) / limit * elapsed_ms)

    def _advance(self, now_ms: int, windows: Windows) -> None:
        """Begin a sample. If all samples are in use, it replaces the oldest."""
        times, values = self._times, self._values
        if values:
            times[2 * self._current + 1] = self._last_ms
            self._current = (self._current + 1) % (windows.samples + 1)
        else:
            self._oldest_ms = now_ms
            self._purge_ms = now_ms + windows.expiry_ms
        if self._current == len(values):
            times.extend((now_ms, now_ms))
            values.append(0.0)
        else:
            self._reset(self._current, now_ms)
            self._oldest_ms = min(times[::2])
        self._start_ms = now_ms

    def _reset(self, sample: int, now_ms: int) -> None:
        self._times[2 * sample] = self._times[2 * sample + 1] = now_ms
        self._values[sample] = 0.0

    def _purge(self, now_ms: int, windows: Windows) -> None:
        """Empty the samples without an event for `windows.expiry_ms`. They begin again now."""
        self._times[2 * self._current + 1] = self._last_ms
        for sample, last_ms in enumerate(self._times[1::2]):
            if now_ms - last_ms >= windows.expiry_ms:
                self._reset(sample, now_ms)
        self._oldest_ms = min(self._times[::2])
        self._purge_ms = min(self._times[1::2]) + windows.expiry_ms
