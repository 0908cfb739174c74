"""A flush is settled after the flushes that it overlapped."""

from __future__ import annotations

from oncelog_server.log.flushes import Flushes
from oncelog_server.log.results import Flush


def counts() -> bool:
    return True


def begun(flushes: Flushes) -> Flush:
    return flushes.begin(Flush([], 0))


def test_a_flush_without_another_is_settled_at_its_end() -> None:
    flushes = Flushes()
    assert flushes.end(begun(flushes), counts).value
    assert flushes.after(counts).value


def test_a_flush_waits_only_for_flushes_that_began_before_its_end() -> None:
    flushes = Flushes()
    earlier, flush, later = begun(flushes), begun(flushes), begun(flushes)
    settled = flushes.end(flush, counts)
    after_its_end = begun(flushes)
    assert not flushes.end(earlier, counts).done
    assert not settled.done
    assert not flushes.end(later, counts).done
    assert settled.value
    assert flushes.end(after_its_end, counts).value


def test_whether_a_flush_counts_is_decided_when_it_is_settled() -> None:
    flushes = Flushes()
    failures: list[str] = []
    flush, other = begun(flushes), begun(flushes)
    settled = flushes.end(flush, lambda: not failures)
    failures.append("Input/output error")
    flushes.end(other, counts)
    assert settled.value is False
