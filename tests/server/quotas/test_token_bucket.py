"""A bucket is full at first, may become negative, and refills at the rate of its quota."""

from __future__ import annotations

from oncelog_server.quotas.token_bucket import TokenBucket
from oncelog_server.quotas.windows import Windows

# A burst of 20 tokens at a limit of 2 in a second.
WINDOWS = Windows(10, 1_000)
LIMIT = 2.0


def test_a_new_bucket_has_the_tokens_of_all_windows() -> None:
    assert TokenBucket().measure(LIMIT, 0, WINDOWS) == 20.0


def test_a_bucket_refills_up_to_its_burst() -> None:
    bucket = TokenBucket()
    bucket.record(30.0, LIMIT, 0, WINDOWS)
    assert [bucket.measure(LIMIT, ms, WINDOWS) for ms in (0, 1_000, 5_000, 60_000)] == [
        -10.0,
        -8.0,
        0.0,
        20.0,
    ]


def test_the_throttle_time_ends_when_the_tokens_are_no_longer_negative() -> None:
    bucket = TokenBucket()
    assert bucket.throttle_ms(LIMIT, 0, WINDOWS) == 0
    bucket.record(21.0, LIMIT, 0, WINDOWS)
    assert bucket.throttle_ms(LIMIT, 0, WINDOWS) == 500
    assert bucket.throttle_ms(LIMIT, 500, WINDOWS) == 0
