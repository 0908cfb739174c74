"""After a crash, the log still has every durable record below the high watermark (I9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.simulation.checking.batches import Batch
from tests.simulation.checking.logs import PartitionLog, TopicPartition
from tests.simulation.checking.violations import Violation

Logs = Mapping[TopicPartition, PartitionLog]


def check_survival(before: Logs, after: Logs) -> list[Violation]:
    """Compare the files before and after a crash. `before` has high watermarks. `after` must have
    the batches below them, unchanged, except those below its log start. Do not use this for logs
    that are compacted or deleted meanwhile."""
    found = []
    for key, old in sorted(before.items()):
        new = after.get(key)
        known = {} if new is None else {batch.base_offset: batch for batch in new.batches}
        for batch in old.batches:
            if batch.last_offset >= old.committed_end:
                break
            if new is not None and batch.base_offset < new.visible_start:
                continue
            survivor = known.get(batch.base_offset)
            if survivor is None or _content(survivor) != _content(batch):
                what = f"the batch at {batch.base_offset} was committed and is gone"
                found.append(Violation("I9", old.name, what))
    return found


def _content(batch: Batch) -> tuple[object, ...]:
    return (replace(batch, position=0, records=()), batch.records)
