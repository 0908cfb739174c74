"""A broker acts on its registration only while its lease certainly lives."""

from __future__ import annotations

from oncelog_server.cluster.authority import MARGIN_MS, Authority


def test_the_time_counts_from_the_sending_of_a_keepalive() -> None:
    authority = Authority()
    assert not authority.valid(0)
    authority.renew(1_000, 9_000)
    last = 1_000 + 8_910 - MARGIN_MS - 1
    assert authority.valid(last)
    assert not authority.valid(last + 1)
    authority.renew(3_000, 9_000)
    assert authority.valid(last + 2_000)


def test_a_late_response_does_not_shorten_the_time() -> None:
    authority = Authority()
    authority.renew(5_000, 9_000)
    until = authority.valid_until_ms
    authority.renew(1_000, 9_000)
    assert authority.valid_until_ms == until


def test_an_ended_lease_ends_the_time_and_a_new_one_begins_it_again() -> None:
    authority = Authority()
    authority.renew(5_000, 9_000)
    authority.end()
    assert not authority.valid(5_000)
    authority.renew(6_000, 2_000)
    assert authority.valid(6_000 + 1_779)


def test_a_lease_that_ends_with_the_process_does_not_end_by_time() -> None:
    authority = Authority()
    authority.renew(0, 0)
    assert authority.valid(2**60)
    authority.end()
    assert not authority.valid(0)
