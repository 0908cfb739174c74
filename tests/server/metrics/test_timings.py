"""The lines of durations, and how long a scrape remembers them."""

from __future__ import annotations

from oncelog_server.latencies import Latencies
from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.timings import ROTATED_MS, Timings
from tests.harness.scraping import scraped


def test_times_are_quantiles_in_ms() -> None:
    produce, flushes, lag = Latencies(), Latencies(), Latencies()
    for duration_us in (1_000, 1_000, 1_000, 8_000):
        produce.add(duration_us)
    flushes.add(16)
    lag.add(31)
    found = scraped(Timings(lambda: [("Produce", produce)], flushes, lag).lines(0))
    name = metrics.TOTAL_TIME.name
    assert 1 <= found.value(name, request="Produce", quantile="0.50") < 1.125
    assert 8 <= found.value(name, request="Produce", quantile="0.99") < 9
    assert found.value(f"{name}_count", request="Produce") == 4
    assert found.value(f"{name}_sum", request="Produce") == 11
    assert found.value(metrics.FLUSH_TIME.name, quantile="0.50") == 0.017
    assert found.value(f"{metrics.FLUSH_TIME.name}_count") == 1
    assert found.value(metrics.LOOP_LAG.name, quantile="0.999") == 0.031


def test_a_scrape_a_minute_after_the_last_rotation_forgets() -> None:
    produce = Latencies()
    produce.add(8_000)
    timings = Timings(lambda: [("Produce", produce)], Latencies(), Latencies())

    def median(now_ms: int) -> float:
        found = scraped(timings.lines(now_ms))
        return found.value(metrics.TOTAL_TIME.name, request="Produce", quantile="0.50")

    assert median(0) > 8
    assert median(ROTATED_MS) > 8
    assert median(ROTATED_MS + 1) > 8
    assert median(2 * ROTATED_MS) > 8
    assert median(2 * ROTATED_MS + 1) == 0
