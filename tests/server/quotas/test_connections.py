"""New connections wait for the rates of broker and listener, or are refused for the rate of their
address."""

from __future__ import annotations

from oncelog_server.quotas.connections import ConnectionRates
from oncelog_server.quotas.entities import Quota, entity_of
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.quotas.windows import WINDOWS

NOW_MS = 10_000_000
FREE = float("inf")
RATE = Quota.CONNECTION


def rates(
    *, broker: float = FREE, inside: float = FREE, outside: float = FREE, **limits: float
) -> ConnectionRates:
    """Return rates with limits of addresses, in which `default` is the default."""
    gate = QuotaGate(lambda: NOW_MS)
    addresses = {"a": "10.0.0.1", "b": "::ffff:10.0.0.2", "c": "0:0:0:0:0:0:0:1", "default": None}
    gate.follow(
        {entity_of([("ip", addresses[name])]): {RATE: limit} for name, limit in limits.items()}
    )
    assert not gate.is_enforced
    return ConnectionRates(gate, broker, {"INSIDE": inside, "OUTSIDE": outside}, "INSIDE", WINDOWS)


def test_without_limits_every_connection_is_accepted_at_once() -> None:
    free = rates()
    for _ in range(10_000):
        assert free.wait_ms("OUTSIDE", NOW_MS) == 0
        assert free.refused_ms("OUTSIDE", "10.0.0.1", NOW_MS) == 0


def test_an_address_beyond_its_rate_is_refused_and_counts_nowhere() -> None:
    """One connection a second is ten in the windows of ten seconds."""
    limited = rates(broker=2.0, a=1.0)
    for _ in range(10):
        assert limited.wait_ms("OUTSIDE", NOW_MS) == 0
        assert limited.refused_ms("OUTSIDE", "10.0.0.1", NOW_MS) == 0
    for _ in range(50):
        assert limited.wait_ms("OUTSIDE", NOW_MS) == 0
        assert limited.refused_ms("OUTSIDE", "10.0.0.1", NOW_MS) == 1_000
    assert limited.refused_ms("OUTSIDE", "10.0.0.2", NOW_MS) == 0
    assert limited.refused_ms("OUTSIDE", "10.0.0.1", NOW_MS + 11_000) == 0


def test_each_address_has_a_rate_of_its_own_in_any_notation() -> None:
    limited = rates(b=0.1, c=0.1, default=0.2)
    for host, other in (("10.0.0.2", "::ffff:10.0.0.2"), ("::1", "0:0:0:0:0:0:0:1")):
        assert limited.refused_ms("OUTSIDE", host, NOW_MS) == 0
        assert limited.refused_ms("OUTSIDE", other, NOW_MS) == 1_000
    for host in ("10.0.0.3", "10.0.0.4"):
        assert limited.refused_ms("OUTSIDE", host, NOW_MS) == 0
        assert limited.refused_ms("OUTSIDE", host, NOW_MS) == 0
        assert limited.refused_ms("OUTSIDE", host, NOW_MS) == 1_000


def test_a_listener_waits_for_its_rate_and_for_that_of_the_broker() -> None:
    limited = rates(broker=1.0, inside=3.0, outside=2.0)
    for _ in range(10):
        assert limited.wait_ms("OUTSIDE", NOW_MS) == 0
    assert limited.wait_ms("OUTSIDE", NOW_MS) == 1_000
    # The listener for other brokers waits only for its own rate.
    for _ in range(30):
        assert limited.wait_ms("INSIDE", NOW_MS) == 0
    assert limited.wait_ms("INSIDE", NOW_MS) == 333
    assert limited.wait_ms("OUTSIDE", NOW_MS + 11_000) == 0
