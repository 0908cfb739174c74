"""The lines between a broker and its exit monitor."""

from __future__ import annotations

import pytest

from oncelog_server.exit_monitor.pipe import NO_LEASE, Monitored, Received, lease_line

MONITORED = Monitored(
    3, 9.0, [("etcd-1", 2379, True)], ("root", "secret"), {"truststore_type": "PEM"}
)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_latest_lease_counts_in_pieces_of_any_size(size: int) -> None:
    data = MONITORED.line() + lease_line(7) + lease_line(2**62)
    received = Received()
    for begin in range(0, len(data), size):
        received.feed(data[begin : begin + size])
    assert received.lease_id == 2**62
    assert received.monitored is not None
    assert received.monitored.line() == MONITORED.line()


def test_a_lease_that_was_not_written_to_the_end_does_not_count() -> None:
    """A part of an id is another id."""
    received = Received()
    received.feed(MONITORED.line() + lease_line(7) + lease_line(1234)[:2])
    assert received.lease_id == 7


def test_without_a_lease_there_is_nothing_to_end() -> None:
    received = Received()
    received.feed(MONITORED.line())
    assert received.lease_id == NO_LEASE
