"""The histogram of durations: quantiles are at most an eighth too high, and old durations are
forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.latencies import Latencies

QUANTILES = (0.5, 0.9, 0.99, 1.0)


def filled(durations_us: list[int]) -> Latencies:
    latencies = Latencies()
    for duration in durations_us:
        latencies.add(duration)
    return latencies


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=200))
def test_a_quantile_is_at_most_an_eighth_too_high(durations_us: list[int]) -> None:
    ordered = sorted(durations_us)
    found = filled(durations_us).quantiles_us(QUANTILES)
    for quantile, value in zip(QUANTILES, found, strict=True):
        # The smallest duration that at least this part of the durations does not exceed.
        rank = next(n for n in range(1, len(ordered) + 1) if n >= quantile * len(ordered))
        exact = ordered[rank - 1]
        assert exact <= value <= exact + exact // 8


@pytest.mark.parametrize("duration_us", [0, 1, 14, 15])
def test_small_durations_are_exact(duration_us: int) -> None:
    (value,) = filled([duration_us]).quantiles_us((0.5,))
    assert value == duration_us


def test_without_durations_every_quantile_is_0() -> None:
    assert Latencies().quantiles_us(QUANTILES) == [0, 0, 0, 0]


def test_a_clock_that_goes_back_counts_as_0() -> None:
    assert filled([-5]).quantiles_us((0.5,)) == [0]


def test_a_duration_of_days_is_in_the_last_bucket() -> None:
    (value,) = filled([10**12]).quantiles_us((0.5,))
    assert value > 2 * 3600 * 10**6


def test_the_second_rotation_forgets() -> None:
    latencies = filled([7])
    latencies.rotate()
    latencies.add(9)
    assert latencies.quantiles_us((0.5, 1.0)) == [7, 9]
    latencies.rotate()
    assert latencies.quantiles_us((0.5, 1.0)) == [9, 9]
    latencies.rotate()
    assert latencies.quantiles_us((1.0,)) == [0]
    assert (latencies.count, latencies.total_us) == (2, 16)
