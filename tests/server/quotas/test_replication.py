"""Throttles of replication (KIP-73): Kafka's windows and rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.quotas.replication import EVERY, ReplicationQuota, throttled_partitions
from oncelog_server.quotas.windows import WINDOWS
from oncelog_server.topic_partition import TopicPartition


class Clock:
    def __init__(self) -> None:
        self.ms = 5_000

    def __call__(self) -> int:
        return self.ms


def quota(limit: int | None) -> tuple[ReplicationQuota, Clock]:
    clock = Clock()
    made = ReplicationQuota(clock, WINDOWS)
    made.limit = limit
    return made, clock


def test_the_replicas_of_a_topic_are_all_or_those_of_this_broker() -> None:
    assert throttled_partitions(("*",), 1) is EVERY
    assert throttled_partitions(("0:1", "1:2", "2:1", "10:11"), 1) == frozenset({0, 2})
    assert throttled_partitions((), 1) == frozenset()


def test_a_throttle_concerns_the_partitions_of_its_topics() -> None:
    found, _ = quota(100)
    assert not found.is_active
    found.throttle({"all": EVERY, "some": frozenset({1}), "none": frozenset()})
    assert found.is_active
    partitions = [
        TopicPartition(topic, number) for topic in ("all", "some", "none") for number in (0, 1)
    ]
    assert [str(name) for name in partitions if found.concerns(name)] == [
        "all-0",
        "all-1",
        "some-1",
    ]
    found.throttle({"all": frozenset(), "some": frozenset()})
    assert not found.is_active
    found.throttle({"all": EVERY})
    found.limit = None
    assert not found.is_active


def test_bytes_count_over_at_least_one_window() -> None:
    """Kafka's SimpleRate: 100 bytes in the first millisecond are 100 bytes per second."""
    found, clock = quota(100)
    found.record(100)
    assert not found.is_exceeded()
    found.record(1)
    assert found.delay_ms() == 10
    clock.ms += 1_009
    assert found.is_exceeded()
    clock.ms += 1
    assert not found.is_exceeded()


def test_a_sample_expires_after_all_windows() -> None:
    found, clock = quota(1)
    found.record(10_000)
    clock.ms += 10_999
    assert found.is_exceeded()
    clock.ms += 1
    assert not found.is_exceeded()
    # The next sample begins the measured time again.
    found.record(2)
    assert found.delay_ms() == 1_000


def test_a_rate_of_0_lets_bytes_through_only_where_none_have_been_counted() -> None:
    found, clock = quota(0)
    assert not found.is_exceeded()
    found.record(1)
    assert found.delay_ms() == 11_000
    clock.ms += 10_999
    assert found.is_exceeded()


def test_without_a_rate_nothing_is_exceeded() -> None:
    found, _ = quota(None)
    found.record(10**12)
    assert not found.is_exceeded()


@given(
    limit=st.integers(1_000, 10_000_000),
    share=st.floats(0.01, 0.5),
    step_ms=st.integers(1, 100),
    seconds=st.integers(3, 60),
)
def test_a_sender_that_waits_while_the_rate_is_exceeded_keeps_the_rate(
    limit: int, share: float, step_ms: int, seconds: int
) -> None:
    """The bytes are at most the rate for the time, with one response more. They are at least 90 %
    of it, where the responses are small."""
    found, clock = quota(limit)
    size = max(int(limit * share), 1)
    sent, start_ms = 0, clock.ms
    while clock.ms - start_ms < seconds * 1_000:
        if not found.is_exceeded():
            found.record(size)
            sent += size
        else:
            clock.ms += step_ms
    allowed = limit * (clock.ms - start_ms) / 1_000
    assert sent <= allowed + size
    assert sent >= 0.9 * allowed - limit * step_ms / 1_000 - size
