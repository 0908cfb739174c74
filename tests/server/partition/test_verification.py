"""Verification guards (as in Kafka's KIP-890) are compared by identity. A guard that is made later
is a different guard, even if it is equal (the ABA problem, scenario R12)."""

from __future__ import annotations

from oncelog_server.partition.verification import VerificationGuards


def test_a_guard_made_after_the_end_of_the_transaction_is_a_different_guard() -> None:
    guards = VerificationGuards()
    old = guards.begin(1)
    guards.clear(1)
    new = guards.begin(1)
    assert new is not old
    assert not guards.holds(1, old)
    assert guards.holds(1, new)


def test_producers_have_their_own_guards() -> None:
    guards = VerificationGuards()
    first, second = guards.begin(1), guards.begin(2)
    guards.clear(1)
    assert not guards.holds(1, first)
    assert guards.holds(2, second)
    guards.end(2, second)
    assert len(guards) == 0
