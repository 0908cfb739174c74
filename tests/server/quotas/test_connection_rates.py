"""The rates of new connections. `conformance/quotas` compares them with those of Kafka."""

from __future__ import annotations

from oncelog_server.quotas.connection_rates import ConnectionRates
from oncelog_server.quotas.windows import Windows

# A limit of 5 permits 5 connections in the measured second.
WINDOWS = Windows(2, 1_000)


def test_a_listener_waits_for_its_own_rate_and_for_that_of_the_broker() -> None:
    rates = ConnectionRates(5, {"SLOW": 2}, WINDOWS)
    assert [rates.record("FAST", 0) for _ in range(2)] == [0, 0]
    assert [rates.record("SLOW", 0) for _ in range(3)] == [0, 0, 500]
    assert rates.record("FAST", 0) == 200
    # After both samples have expired.
    assert rates.record("FAST", 10_000) == 0


def test_a_connection_waits_for_one_window_at_most_also_with_the_limit_0() -> None:
    rates = ConnectionRates(None, {"CLOSED": 0, "SLOW": 1}, WINDOWS)
    assert [rates.record("CLOSED", ms) for ms in (0, 5_000, 9_999)] == [1_000] * 3
    assert [rates.record("SLOW", 0) for _ in range(10)][-1] == 1_000


def test_a_connection_that_is_taken_back_does_not_count() -> None:
    rates = ConnectionRates(1, {}, WINDOWS)
    assert rates.record("PLAINTEXT", 0) == 0
    rates.take_back("PLAINTEXT", 0)
    assert rates.record("PLAINTEXT", 0) == 0
    assert rates.record("PLAINTEXT", 0) > 0


def test_clients_do_not_delay_the_protected_listener_nor_the_other_way_round() -> None:
    rates = ConnectionRates(1, {"BROKERS": 3}, WINDOWS, protected="BROKERS")
    assert [rates.record("BROKERS", 0) for _ in range(3)] == [0, 0, 0]
    assert rates.record("CLIENTS", 0) == 0
    assert rates.record("CLIENTS", 0) > 0
    assert rates.record("BROKERS", 0) > 0
    # Taking a connection of the protected listener back does not change the rate of the broker
    # either.
    rates.take_back("BROKERS", 0)
    assert rates.record("CLIENTS", 0) > 0


def test_a_listener_without_a_limit_never_waits() -> None:
    rates = ConnectionRates(None, {"SLOW": 1}, WINDOWS)
    assert [rates.record("FAST", 0) for _ in range(100)] == [0] * 100
