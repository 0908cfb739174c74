"""Compare the rows that a reader saw with the plan of each micro-batch in the checkpoint. The
module is pure, except that it reads the checkpoint."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Sighting(NamedTuple):
    """A row that a reader can see: its topic, and its purchase (`partition:offset`)."""

    topic: str
    purchase: str


class Partial(NamedTuple):
    """A moment at which a reader could see some rows of a batch and not others."""

    snapshot: int
    batch: int
    seen: int
    expected: int


class Verdict(NamedTuple):
    """The violations. An empty verdict means exactly once. `strangers`: rows of no planned batch.
    `partial`: batches that were visible in part."""

    duplicates: Mapping[Sighting, int]
    losses: frozenset[Sighting]
    strangers: frozenset[Sighting]
    partial: Sequence[Partial]


def planned_batches(
    checkpoint: str, purchases: str, topics: Sequence[str]
) -> dict[int, frozenset[Sighting]]:
    """Return the rows of each batch by its id, from the offsets that Spark stored before it ran the
    batch. Offsets of purchases have no gaps."""
    batches = {}
    done: dict[str, int] = {}
    for file in sorted(offset_files(checkpoint), key=lambda file: int(file.name)):
        # Line 1 is the version, line 2 the batch's metadata; each further line is a source.
        ends = json.loads(file.read_text().splitlines()[2])[purchases]
        batches[int(file.name)] = frozenset(
            Sighting(topic, f"{partition}:{offset}")
            for partition, end in ends.items()
            for offset in range(done.get(partition, 0), end)
            for topic in topics
        )
        done = ends
    return batches


def offset_files(checkpoint: str) -> list[Path]:
    """Return the offset file of each planned batch."""
    return [file for file in Path(checkpoint, "offsets").glob("*") if file.name.isdigit()]


def judge(
    batches: Mapping[int, frozenset[Sighting]], snapshots: Iterable[Sequence[Sighting]]
) -> Verdict:
    """Return the verdict. `snapshots`: for each moment, the rows that became visible then. A row
    that becomes visible twice is a duplicate."""
    batch_of = {row: number for number, rows in batches.items() for row in rows}
    seen: Counter[Sighting] = Counter()
    open_batches: dict[int, int] = {}
    partial = []
    for moment, rows in enumerate(snapshots):
        for row in rows:
            seen[row] += 1
            if row in batch_of and seen[row] == 1:
                number = batch_of[row]
                open_batches[number] = open_batches.get(number, 0) + 1
        for number, count in [*open_batches.items()]:
            if count == len(batches[number]):
                del open_batches[number]
            else:
                partial.append(Partial(moment, number, count, len(batches[number])))
    return Verdict(
        duplicates={row: count for row, count in seen.items() if count > 1},
        losses=frozenset(batch_of.keys() - seen.keys()),
        strangers=frozenset(seen.keys() - batch_of.keys()),
        partial=partial,
    )
