"""The meters of clients: each client keeps its own, for a limited time and number of clients."""

from __future__ import annotations

from oncelog_server.quotas.entities import Quota, entity_of
from oncelog_server.quotas.limits import ClientLimits
from oncelog_server.quotas.rates import Rate
from oncelog_server.quotas.usage import FORGOTTEN_AFTER_MS, MAX_CLIENTS, Usage

NOW_MS = 10_000_000
EACH_CLIENT = entity_of([("user", None), ("client-id", None)])
EACH_USER = entity_of([("user", None)])


def limits(limit: float, entity: object = EACH_CLIENT) -> ClientLimits:
    return ClientLimits({entity: {Quota.PRODUCE: limit}}, Quota.PRODUCE)  # type: ignore[dict-item]


def meter(usage: Usage[Rate], client_id: str, now_ms: int = NOW_MS, user: str = "u") -> Rate:
    used = usage.of(user, client_id, now_ms)
    assert used is not None
    return used.meter


def test_a_client_keeps_its_meter_when_the_limit_changes() -> None:
    usage = Usage(limits(1.0), Rate)
    first = meter(usage, "a")
    usage.limits = limits(2.0)
    used = usage.of("u", "a", NOW_MS + 1)
    assert used is not None
    assert (used.meter is first, used.limit) == (True, 2.0)
    assert meter(usage, "b") is not first


def test_the_clients_of_a_user_share_a_limit_of_the_user() -> None:
    usage = Usage(limits(1.0, EACH_USER), Rate)
    assert meter(usage, "a") is meter(usage, "b")
    assert meter(usage, "a") is not meter(usage, "a", user="other")
    assert len(usage) == 2


def test_a_client_without_a_limit_has_no_meter() -> None:
    usage = Usage(limits(1.0, entity_of([("user", "alice")])), Rate)
    assert usage.of("bob", "a", NOW_MS) is None
    assert len(usage) == 0


def test_a_user_and_a_client_id_with_the_same_letters_in_sum_are_different_clients() -> None:
    usage = Usage(limits(1.0), Rate)
    first = meter(usage, "bc", user="a")
    for user, client_id in (("ab", "c"), ("abc", "x"), ("1", "bca"), ("a\0b", "c")):
        assert meter(usage, client_id, user=user) is not first


def test_long_client_ids_are_different_clients() -> None:
    usage = Usage(limits(1.0), Rate)
    first = meter(usage, "x" * 30_000 + "a")
    assert meter(usage, "x" * 30_000 + "a") is first
    assert meter(usage, "x" * 30_000 + "b") is not first


def test_a_meter_is_forgotten_an_hour_after_its_last_use() -> None:
    usage = Usage(limits(1.0), Rate)
    first = meter(usage, "a")
    later_ms = NOW_MS + FORGOTTEN_AFTER_MS
    assert meter(usage, "a", later_ms) is first
    assert meter(usage, "a", later_ms + FORGOTTEN_AFTER_MS + 1) is not first


def test_unused_meters_leave_the_memory_within_two_hours() -> None:
    usage = Usage(limits(1.0), Rate)
    for number in range(1000):
        meter(usage, str(number))
    for hours in (1, 2):
        meter(usage, f"new {hours}", NOW_MS + hours * (FORGOTTEN_AFTER_MS + 1))
    assert len(usage) <= 2


def test_the_number_of_clients_is_limited_and_a_client_in_use_keeps_its_meter() -> None:
    usage = Usage(limits(1.0), Rate)
    first = meter(usage, "steady")
    for number in range(5 * MAX_CLIENTS):
        meter(usage, f"c{number}")
        if number % 1000 == 0:
            assert meter(usage, "steady") is first
        assert len(usage) <= MAX_CLIENTS


def test_many_client_ids_that_share_a_limit_take_no_memory() -> None:
    usage = Usage(limits(1.0, EACH_USER), Rate)
    for number in range(3 * MAX_CLIENTS):
        meter(usage, f"c{number}")
    assert len(usage) == 1
    assert len(usage._by_client) <= MAX_CLIENTS // 2
