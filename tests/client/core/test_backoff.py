"""Back-off times grow to a limit and differ between clients."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.backoff import Backoff


def test_the_wait_doubles_up_to_the_limit() -> None:
    waits = [Backoff(100, 1000).delay_ms(failures, 0.5) for failures in range(7)]
    assert waits == [0, 100, 200, 400, 800, 1000, 1000]


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_jitter_stays_within_a_fifth(failures: int, randomness: float) -> None:
    middle = Backoff(100, 1000).delay_ms(failures, 0.5)
    assert 0.8 * middle <= Backoff(100, 1000).delay_ms(failures, randomness) <= 1.2 * middle
