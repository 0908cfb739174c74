"""The lines of durations: requests, syncs, and the delay of the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from oncelog_server.latencies import Latencies
from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import Metric

# The quantiles of Kafka's histograms, as the JMX exporter writes them.
QUANTILES: Final = {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.98": 0.98, "0.99": 0.99,
                    "0.999": 0.999}  # fmt: skip
# A scrape forgets older durations, so that the quantiles are those of the last minutes.
ROTATED_MS: Final = 60_000


class Timings:
    """The sources of the lines. `by_api` returns (API's name, latencies) of each API that has had a
    request."""

    def __init__(
        self,
        by_api: Callable[[], Iterable[tuple[str, Latencies]]],
        flushes: Latencies,
        loop_lag: Latencies,
    ) -> None:
        self._by_api = by_api
        self._flushes = flushes
        self._loop_lag = loop_lag
        self._rotated_ms: int | None = None

    def lines(self, now_ms: int) -> Iterator[str]:
        """Yield the lines. `now_ms` is monotonic time."""
        by_api = list(self._by_api())
        yield metrics.TOTAL_TIME.head()
        for name, latencies in by_api:
            yield from _summary(metrics.TOTAL_TIME, latencies, name)
        yield metrics.FLUSH_TIME.head()
        yield from _summary(metrics.FLUSH_TIME, self._flushes)
        yield metrics.LOOP_LAG.head()
        yield from _summary(metrics.LOOP_LAG, self._loop_lag)
        self._rotate(now_ms, [latencies for _, latencies in by_api])

    def _rotate(self, now_ms: int, requests: list[Latencies]) -> None:
        if self._rotated_ms is None:
            self._rotated_ms = now_ms
        elif now_ms - self._rotated_ms >= ROTATED_MS:
            self._rotated_ms = now_ms
            for latencies in (*requests, self._flushes, self._loop_lag):
                latencies.rotate()


def _summary(metric: Metric, latencies: Latencies, *labels: str) -> Iterator[str]:
    values = latencies.quantiles_us(tuple(QUANTILES.values()))
    quantiles = {name: value / 1000 for name, value in zip(QUANTILES, values, strict=True)}
    return metric.summary(quantiles, latencies.total_us / 1000, latencies.count, *labels)
