"""A topic with `cleanup.policy=compact,delete`: retention and the log cleaner work on the same log,
in either order."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from oncelog_protocol.records.batch import build_batch, read_records, split_batches
from oncelog_protocol.records.record import NewRecord
from oncelog_server.background_tasks import FIRST_RETENTION_MS
from oncelog_server.log.config import COMPACT, DELETE
from oncelog_server.partition.partition import Partition
from tests.server.cleaning.cleanings import SETTINGS, Cleaning
from tests.server.test_background_duties import Kept
from tests.server.transaction.world import A0

DAY_MS = 86_400_000
DAYS = 6
# A compacted segment with one such value has more than half of SEGMENT_BYTES, so compaction merges
# no two segments.
VALUE = bytes(300)
SEGMENT_BYTES = 700
# Delays of the cleaner's first pass: long before, and long after, the first check of retention.
CLEANER_FIRST, RETENTION_FIRST = FIRST_RETENTION_MS // 10, 10 * FIRST_RETENTION_MS


def written(partition: Partition) -> dict[bytes, list[int]]:
    """Return, for each key, the days of its records that are still in the log."""
    found: dict[bytes, list[int]] = {}
    for segment in partition._log.segments:
        data = segment.log.read(0, segment.size)
        for position, _ in split_batches(data):
            for record in read_records(data, position, max_bytes=1 << 20):
                assert record.key is not None
                assert record.value is not None
                found.setdefault(record.key, []).append(record.value[0])
    return found


def kept_by(policy: Set[str], oldest: int) -> dict[bytes, list[int]]:
    """Return the part of `written` that is left if days before `oldest` are deleted."""
    own = {b"day %d" % day: [day] for day in range(oldest, DAYS)}
    return {**own, b"daily": [DAYS - 1] if COMPACT in policy else [*range(oldest, DAYS)]}


@pytest.mark.parametrize(
    "backoff_ms", [CLEANER_FIRST, RETENTION_FIRST], ids=["cleaner first", "retention first"]
)
@pytest.mark.parametrize(
    "policy",
    [{COMPACT, DELETE}, {COMPACT}, {DELETE}],
    ids=["compact,delete", "compact", "delete"],
)
def test_each_policy_alone_and_both_together_keep_the_right_records(
    tmp_path: Path, policy: Set[str], backoff_ms: int
) -> None:
    """Each day, one record gets a key of that day, and one record gets the key `daily`."""
    kept = Kept(tmp_path)
    world = kept.world
    cleaning = Cleaning(world, replace(SETTINGS, log_cleaner_backoff_ms=backoff_ms))
    compacted = cleaning.compact(A0)
    compacted.reconfigure(
        structs.replace(
            compacted.config, cleanup_policy=frozenset(policy), segment_bytes=SEGMENT_BYTES,
            retention_ms=3 * DAY_MS + DAY_MS // 2, min_cleanable_dirty_ratio=0.0,
        )
    )  # fmt: skip
    for day in range(DAYS):
        value = bytes((day,)) + VALUE
        pair = [NewRecord(world.wall(), key, value) for key in (b"day %d" % day, b"daily")]
        compacted.append(build_batch(pair), now_ms=world.wall())
        compacted._log.roll(world.wall())
        world.timers.now_ms += DAY_MS
    world.settle(2 * RETENTION_FIRST)
    oldest = 3 if DELETE in policy else 0
    assert written(compacted) == kept_by(policy, oldest)
    assert (compacted.log_start_offset, compacted.log_end_offset) == (2 * oldest, 2 * DAYS)
    expected = {A0: compacted._log.segments.active.base_offset} if COMPACT in policy else {}
    assert cleaning.checkpoint() == expected
    # Compaction does not change the age of records.
    world.timers.now_ms += 2 * DAY_MS
    world.settle(2 * RETENTION_FIRST)
    oldest = 5 if DELETE in policy else 0
    assert compacted.log_start_offset == 2 * oldest
    assert written(compacted) == kept_by(policy, oldest)
    assert cleaning.cleaner.uncleanable_count == 0
