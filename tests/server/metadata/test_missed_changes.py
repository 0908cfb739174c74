"""A broker that has missed many changes of the metadata catches up without blocking its loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from oncelog_server.cluster import image, records
from oncelog_server.cluster.records import TopicRecord
from oncelog_server.cluster.store import Event, Put
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.metadata.turns import STEPS_PER_TURN
from oncelog_server.slices import SLICE_MS
from tests.server.metadata.brokers import until
from tests.server.metadata.loop_turns import most_in_a_turn
from tests.server.metadata.memory_store import MemoryStore

CHANGES = 1_000
STEP_MS = 2


class SteppingClock:
    """A clock that each reading advances by `step_ms`."""

    def __init__(self, step_ms: int) -> None:
        self._now_ms = 0
        self._step_ms = step_ms

    def __call__(self) -> int:
        self._now_ms += self._step_ms
        return self._now_ms


def change(store: MemoryStore, count: int, *, first: int = 0) -> None:
    """Make changes of one topic each, at once."""
    for number in range(first, first + count):
        record = TopicRecord(f"{number:021}A", 0)
        store.apply([Put(records.topic_key(f"t{number}"), records.encode(record))])


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(kept=CHANGES)


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock(0)


@pytest.fixture
async def follower(store: MemoryStore, clock: SteppingClock) -> AsyncIterator[ImageFollower]:
    follower = ImageFollower(store, clock)
    await follower.start()
    change(store, 1)
    await until(lambda: bool(follower.image.topics))
    yield follower
    await follower.stop()


@pytest.mark.parametrize(
    ("clock", "limit"),
    [
        (SteppingClock(STEP_MS), SLICE_MS // STEP_MS),
        # A simulated clock stands still while the broker works.
        (SteppingClock(0), STEPS_PER_TURN),
    ],
)
async def test_many_missed_changes_take_several_turns(
    follower: ImageFollower, store: MemoryStore, limit: int
) -> None:
    change(store, CHANGES, first=1)
    most = await most_in_a_turn(
        lambda: follower.image.revision, lambda: follower.image.revision == store.feed.revision
    )
    assert most <= limit
    assert len(follower.image.topics) == 1 + CHANGES


async def test_the_image_after_a_compaction_takes_several_turns(
    follower: ImageFollower, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = 0
    apply = image._Draft.apply

    def counted(self: image._Draft, event: Event) -> None:
        nonlocal applied
        applied += 1
        apply(self, event)

    monkeypatch.setattr(image._Draft, "apply", counted)
    change(store, CHANGES + 1, first=1)  # more than the store keeps
    most = await most_in_a_turn(
        lambda: applied, lambda: follower.image.revision == store.feed.revision
    )
    assert applied == len(store.entries), "the image was built from a snapshot"
    assert most <= STEPS_PER_TURN
    assert len(follower.image.topics) == 2 + CHANGES
