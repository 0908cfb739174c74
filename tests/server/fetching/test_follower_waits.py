"""After a new leadership, the fetches of followers wait only briefly: a fetch in flight leaves out
the partitions that its follower has just been given."""

from __future__ import annotations

from oncelog_server.fetching.follower_waits import BRIEF_FOR_MS, BRIEF_WAIT_MS, FollowerWaits

LONG_MS = 500


class Clock:
    ms = 1_000

    def __call__(self) -> int:
        return self.ms


def test_a_new_leadership_ends_the_parked_fetches() -> None:
    waits = FollowerWaits(Clock())
    ended: list[str] = []
    waits.parked.add(lambda: ended.append("parked"))
    waits.shorten()
    assert ended == ["parked"]


def test_the_next_fetches_wait_briefly_for_a_time() -> None:
    clock = Clock()
    waits = FollowerWaits(clock)
    assert waits.limit(LONG_MS) == LONG_MS
    waits.shorten()
    assert waits.limit(LONG_MS) == BRIEF_WAIT_MS
    assert waits.limit(0) == 0
    clock.ms += BRIEF_FOR_MS - 1
    assert waits.limit(LONG_MS) == BRIEF_WAIT_MS
    clock.ms += 1
    assert waits.limit(LONG_MS) == LONG_MS
