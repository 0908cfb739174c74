"""The quotas as requests meet them: what is enforced, and the responses of throttled Fetches."""

from __future__ import annotations

from oncelog_protocol.types import INT32_MAX
from oncelog_server.quotas.entities import Entity, Quota, entity_of
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.quotas.windows import Windows

NOW_MS = 10_000_000
ALICE = entity_of([("user", "alice")])


def gate(quota: Quota, limit: float, entity: Entity = ALICE) -> QuotaGate:
    made = QuotaGate(lambda: NOW_MS)
    made.follow({entity: {quota: limit}})
    return made


def test_without_a_quota_nothing_is_enforced() -> None:
    free = QuotaGate(lambda: NOW_MS)
    assert not free.is_enforced
    assert free.fetch_budget("alice", "app") == INT32_MAX
    assert free.after_produce("alice", "app", 10**9, NOW_MS) == 0
    assert free.permits("alice", "app", is_strict=True) is None
    free.follow({entity_of([("ip", None)]): {Quota.CONNECTION: 1.0}})
    assert not free.is_enforced


def test_only_the_defined_quota_throttles_and_only_its_client() -> None:
    produce = gate(Quota.PRODUCE, 100.0)
    assert produce.is_enforced
    assert produce.after_produce("bob", "app", 10_000, NOW_MS) == 0
    # 10,000 bytes in windows of ten seconds are 1,000 bytes a second, ten times the limit.
    assert produce.after_produce("alice", "app", 10_000, NOW_MS) == 90_000
    assert produce.after_request("alice", "app", 10**10, NOW_MS) == 0
    assert produce.after_fetch("alice", "app", 10**9, 0, NOW_MS) == (0, False)


def test_a_quota_that_is_removed_no_longer_throttles() -> None:
    produce = gate(Quota.PRODUCE, 100.0)
    produce.follow({})
    assert not produce.is_enforced
    assert produce.after_produce("alice", "app", 10_000, NOW_MS) == 0


def test_a_changed_limit_holds_for_what_was_used_before() -> None:
    produce = gate(Quota.PRODUCE, 1_000.0)
    assert produce.after_produce("alice", "app", 10_000, NOW_MS) == 0
    produce.follow({ALICE: {Quota.PRODUCE: 100.0}})
    assert produce.after_produce("alice", "app", 0, NOW_MS) == 90_000


def test_the_time_of_the_loop_throttles_for_at_most_one_window() -> None:
    time = QuotaGate(lambda: NOW_MS, Windows(11, 2_000))
    time.follow({ALICE: {Quota.REQUEST: 1.0}})
    # 1 % of the 20 seconds of the windows is 0.2 s.
    assert time.after_request("alice", "app", 200_000_000, NOW_MS) == 0
    assert time.after_request("alice", "app", 2_000_000, NOW_MS) == 200
    assert time.after_request("alice", "app", 10**10, NOW_MS) == 2_000


def test_a_throttled_fetch_is_empty_and_its_bytes_do_not_count() -> None:
    fetch = gate(Quota.FETCH, 100.0)
    assert fetch.fetch_budget("alice", "app") == 1_000
    assert fetch.fetch_budget("bob", "app") == INT32_MAX
    assert fetch.after_fetch("alice", "app", 1_000, 0, NOW_MS) == (0, False)
    for _ in range(3):
        assert fetch.after_fetch("alice", "app", 500, 0, NOW_MS) == (5_000, True)
    assert fetch.after_fetch("alice", "app", 0, 0, NOW_MS) == (0, False)


def test_a_fetch_that_the_quota_on_time_throttles_is_empty_too() -> None:
    fetch = gate(Quota.FETCH, 100.0)
    assert fetch.after_fetch("alice", "app", 900, 70, NOW_MS) == (70, True)
    assert fetch.after_fetch("alice", "app", 1_000, 0, NOW_MS) == (0, False)
    assert gate(Quota.REQUEST, 1.0).after_fetch("alice", "app", 1, 70, NOW_MS) == (70, True)


def test_a_batch_larger_than_the_budget_is_read_once_and_paid_for_afterwards() -> None:
    """Kafka throttles such a Fetch forever, and the consumer never gets beyond the batch."""
    fetch = gate(Quota.FETCH, 100.0)
    assert fetch.after_fetch("alice", "app", 2_000, 0, NOW_MS) == (10_000, False)
    half_paid_ms = NOW_MS + 10_000
    assert fetch.after_fetch("alice", "app", 2_000, 0, half_paid_ms) == (10_000, True)
    paid_ms = NOW_MS + 20_000
    assert fetch.after_fetch("alice", "app", 2_000, 0, paid_ms) == (10_000, False)


def test_a_batch_that_fits_after_a_wait_is_read_after_the_wait() -> None:
    """A rate is measured over ten to eleven seconds."""
    fetch = gate(Quota.FETCH, 100.0)
    assert fetch.after_fetch("alice", "app", 1_050, 0, NOW_MS) == (500, True)
    assert fetch.after_fetch("alice", "app", 1_050, 0, NOW_MS + 500) == (0, False)


def test_each_broker_limits_the_mutations_that_it_makes() -> None:
    """Kafka's brokers forward all changes to the active controller, which has one bucket
    (KIP-599)."""
    for broker in (gate(Quota.MUTATION, 1.0), gate(Quota.MUTATION, 1.0)):
        permits = broker.permits("alice", "app", is_strict=False)
        assert permits is not None
        permits.take("large", 15)  # a bucket of 11
        assert permits.throttle_ms() == 4_000


def test_strict_permits_are_refused_only_while_the_tokens_are_negative() -> None:
    mutations = gate(Quota.MUTATION, 1.0)
    first = mutations.permits("alice", "app", is_strict=False)
    assert first is not None
    first.take("large", 15)  # a bucket of 11
    first.take("large", 15)  # the same decision, made again
    assert first.throttle_ms() == 4_000
    assert mutations.permits("bob", "app", is_strict=True) is None
