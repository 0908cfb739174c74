"""The meters of clients: each client keeps its own, for a limited time and number of clients."""

from __future__ import annotations

from oncelog_server.quotas.limits import FoundLimit
from oncelog_server.quotas.rates import Rate
from oncelog_server.quotas.usage import FORGOTTEN_AFTER_MS, MAX_CLIENTS, Usage

NOW_MS = 10_000_000


def client(client_id: str, user: str = "") -> FoundLimit:
    return FoundLimit(1.0, user, client_id)


def test_a_client_keeps_its_meter_whatever_its_limit_is() -> None:
    usage = Usage(Rate)
    meter = usage.meter(client("a"), NOW_MS)
    assert usage.meter(FoundLimit(2.0, "", "a"), NOW_MS + 1) is meter
    assert usage.meter(client("b"), NOW_MS + 1) is not meter


def test_a_user_and_a_client_id_with_the_same_letters_in_sum_are_different_clients() -> None:
    usage = Usage(Rate)
    meter = usage.meter(client("bc", "a"), NOW_MS)
    for other in (client("c", "ab"), client("abc"), client("", "abc"), client("\0c", "ab")):
        assert usage.meter(other, NOW_MS) is not meter


def test_long_client_ids_are_different_clients() -> None:
    usage = Usage(Rate)
    meter = usage.meter(client("x" * 30_000 + "a"), NOW_MS)
    assert usage.meter(client("x" * 30_000 + "a"), NOW_MS) is meter
    assert usage.meter(client("x" * 30_000 + "b"), NOW_MS) is not meter


def test_a_meter_is_forgotten_an_hour_after_its_last_use() -> None:
    usage = Usage(Rate)
    meter = usage.meter(client("a"), NOW_MS)
    later_ms = NOW_MS + FORGOTTEN_AFTER_MS
    assert usage.meter(client("a"), later_ms) is meter
    assert usage.meter(client("a"), later_ms + FORGOTTEN_AFTER_MS + 1) is not meter


def test_unused_meters_leave_the_memory_within_two_hours() -> None:
    usage = Usage(Rate)
    for number in range(1000):
        usage.meter(client(str(number)), NOW_MS)
    for hours in (1, 2):
        usage.meter(client("new"), NOW_MS + hours * (FORGOTTEN_AFTER_MS + 1))
    assert len(usage) <= 2


def test_the_number_of_clients_is_limited_and_a_client_in_use_keeps_its_meter() -> None:
    usage = Usage(Rate)
    meter = usage.meter(client("steady"), NOW_MS)
    for number in range(5 * MAX_CLIENTS):
        usage.meter(client(f"c{number}"), NOW_MS)
        if number % 1000 == 0:
            assert usage.meter(client("steady"), NOW_MS) is meter
        assert len(usage) <= MAX_CLIENTS
