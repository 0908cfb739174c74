"""No address gets more than its share of producer ids (H60, H61)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from oncelog_server.transaction.caller import Client, quota_client
from oncelog_server.transaction.producer_id_quota import (
    PER_ADDRESS,
    PER_PARTITION,
    REPEAT_MS,
    STEPS,
    ProducerIdQuota,
    Refusal,
    RefusedProducerIds,
)

WINDOW_MS = 16_000


def given_to(quota: ProducerIdQuota, address: str, now_ms: int, times: int = 1) -> int:
    """Request a producer id `times` times from an address. Return how many of the requests the
    quota grants."""
    granted = 0
    for _ in range(times):
        with suppress(Refused):
            quota.charge(address, now_ms)
            granted += 1
    return granted


def test_h60_each_address_has_its_own_limit() -> None:
    quota = ProducerIdQuota(5, WINDOW_MS)
    assert given_to(quota, "/10.0.0.1", 0, 9) == 5
    assert given_to(quota, "/10.0.0.2", 0, 9) == 5
    assert quota.refused.counts[PER_ADDRESS] == 8
    with pytest.raises(Refused, match=r"oncelog\.max\.producer\.ids\.per\.address") as caught:
        quota.charge("/10.0.0.1", 0)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_another_window_keeps_the_limit_and_the_ids_of_the_former_window_expire() -> None:
    quota = ProducerIdQuota(5, WINDOW_MS)
    assert given_to(quota, "/10.0.0.1", 0, 3) == 3
    now_ms = WINDOW_MS // 2
    quota.follow(WINDOW_MS * 10, now_ms)
    assert given_to(quota, "/10.0.0.1", now_ms, 9) == 2
    quota.give_back("/10.0.0.1")
    assert given_to(quota, "/10.0.0.1", now_ms + WINDOW_MS * 9, 9) == 1
    quota.follow(WINDOW_MS, now_ms)
    assert given_to(quota, "/10.0.0.1", now_ms, 9) == 0
    assert given_to(quota, "/10.0.0.1", now_ms + WINDOW_MS + WINDOW_MS // STEPS, 9) == 5


def test_h60_a_principal_has_its_own_limit_at_all_its_addresses() -> None:
    quota = ProducerIdQuota(5, WINDOW_MS)
    alice, bob = (Client("c", "/10.0.0.1", name) for name in ("User:alice", "User:bob::1"))
    elsewhere = Client("c", "/10.0.0.2", "User:alice")
    assert given_to(quota, quota_client(alice), 0, 3) == 3
    assert given_to(quota, quota_client(elsewhere), 0, 9) == 2
    # Other principals at the same address have limits of their own.
    assert given_to(quota, quota_client(bob), 0, 9) == 5
    assert given_to(quota, quota_client(Client("c", "/10.0.0.1")), 0, 9) == 5
    assert given_to(quota, quota_client(Client("c", "/10.0.0.1")), 0) == 0


def test_a_refusal_names_the_principal_or_the_address() -> None:
    seen: list[Refusal] = []
    refused = RefusedProducerIds(lambda: len(seen) * REPEAT_MS, seen.append)
    quota = ProducerIdQuota(0, WINDOW_MS, refused)
    for client in ("User:alice", "/10.0.0.1"):
        given_to(quota, client, 0)
    assert [refusal.where for refusal in seen] == [
        {"principal": "User:alice"},
        {"client_address": "/10.0.0.1"},
    ]


def test_h60_a_refund_removes_the_newest_charge_and_not_the_oldest() -> None:
    quota = ProducerIdQuota(5, WINDOW_MS)
    given_to(quota, "/a", 0)
    given_to(quota, "/a", WINDOW_MS // 2)
    quota.give_back("/a")
    assert given_to(quota, "/a", WINDOW_MS + WINDOW_MS // STEPS, 9) == 5


def test_h61_of_a_million_ids_an_address_gets_its_share_and_no_more() -> None:
    quota = ProducerIdQuota(Settings().oncelog_max_producer_ids_per_address)
    assert given_to(quota, "/10.0.0.1", 0, 1_000_000) == 200_000
    assert quota.refused.counts[PER_ADDRESS] == 800_000
    assert given_to(quota, "/10.0.0.2", 0) == 1


def test_h60_a_refunded_charge_does_not_count() -> None:
    quota = ProducerIdQuota(5, WINDOW_MS)
    given_to(quota, "/a", 0, 5)
    for now_ms in (0, WINDOW_MS // 2):
        quota.give_back("/a")
        assert given_to(quota, "/a", now_ms, 2) == 1
    for _ in range(5):
        quota.give_back("/a")
    assert len(quota) == 0
    quota.give_back("/a")
    assert given_to(quota, "/a", 0, 9) == 5


def test_h60_ids_count_until_they_expire_and_not_longer() -> None:
    quota = ProducerIdQuota(5, WINDOW_MS)
    given_to(quota, "/a", 0, 3)
    given_to(quota, "/a", WINDOW_MS // 2, 2)
    assert given_to(quota, "/a", WINDOW_MS - 1) == 0
    assert given_to(quota, "/a", WINDOW_MS + WINDOW_MS // STEPS, 9) == 3
    assert len(quota) == 1
    given_to(quota, "/b", 10 * WINDOW_MS)
    assert len(quota) == 1, "the quota forgets a client without new requests"


def test_h60_all_ipv6_addresses_of_a_network_share_one_limit() -> None:
    quota = ProducerIdQuota(2, WINDOW_MS)
    assert given_to(quota, "/2001:db8:0:1:0:0:0:1", 0) == 1
    assert given_to(quota, "/2001:db8:0:1:ffff::9", 0) == 1
    assert given_to(quota, "/2001:db8:0:1::7", 0) == 0
    assert given_to(quota, "/2001:db8:0:2::7", 0) == 1
    assert given_to(quota, "/::1", 0) == 1


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3_000)), max_size=60),
    st.integers(1, 5),
)
def test_h60_an_address_gets_no_more_than_the_limit_within_any_window(
    calls: list[tuple[str, int]], limit: int
) -> None:
    quota = ProducerIdQuota(limit, WINDOW_MS)
    now_ms = 0
    granted: dict[str, list[int]] = {"a": [], "b": []}
    for address, later_ms in calls:
        now_ms += later_ms
        if given_to(quota, address, now_ms):
            granted[address].append(now_ms)
    for times in granted.values():
        for began in times:
            assert sum(began <= time < began + WINDOW_MS for time in times) <= limit


def test_h60_each_limit_is_logged_once_a_minute_with_the_number_of_refusals() -> None:
    """The event has the client, and the number of refusals since the last event. `counts` has the
    number of all refusals."""
    refusals: list[Refusal] = []
    now_ms = 5
    refused = RefusedProducerIds(lambda: now_ms, refusals.append)
    quota = ProducerIdQuota(5, WINDOW_MS, refused)
    given_to(quota, "/a", 0, 8)
    given_to(quota, "/b", 0, 7)
    refused.add(PER_PARTITION, 3, partition="t-0")
    now_ms += REPEAT_MS - 1
    given_to(quota, "/b", 0, 10)
    first = Refusal(PER_ADDRESS, 5, 1, {"client_address": "/a"})
    other = Refusal(PER_PARTITION, 3, 1, {"partition": "t-0"})
    assert refusals == [first, other]
    now_ms += 1
    given_to(quota, "/b", 0, 2)
    assert refusals == [first, other, Refusal(PER_ADDRESS, 5, 15, {"client_address": "/b"})]
    assert refused.counts == {PER_ADDRESS: 17, PER_PARTITION: 1}
