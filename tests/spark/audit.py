"""What a reader saw against what the checkpoint says each micro-batch is: PURE but for reading the
checkpoint."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Sighting(NamedTuple):
    """A row that a reader can see: its topic, and the purchase (`partition:offset`) it is of."""

    topic: str
    purchase: str


class Partial(NamedTuple):
    """A moment at which some rows of a batch were to be seen and others not."""

    snapshot: int
    batch: int
    seen: int
    expected: int


class Verdict(NamedTuple):
    """Empty means exactly once, and (`partial`) never by halves."""

    duplicates: Mapping[Sighting, int]
    losses: frozenset[Sighting]
    strangers: frozenset[Sighting]
    partial: Sequence[Partial]


def planned_batches(
    checkpoint: str, purchases: str, topics: Sequence[str]
) -> dict[int, frozenset[Sighting]]:
    """By batch id, the rows it has to write: from the offsets that Spark wrote down before it ran
    the batch. Purchases have offsets without gaps."""
    batches = {}
    done: dict[str, int] = {}
    for file in sorted(offset_files(checkpoint), key=lambda file: int(file.name)):
        # A version, the batch's metadata, then a line for each source: here there is one.
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
    """One a batch that was planned."""
    return [file for file in Path(checkpoint, "offsets").glob("*") if file.name.isdigit()]


def judge(
    batches: Mapping[int, frozenset[Sighting]], snapshots: Iterable[Sequence[Sighting]]
) -> Verdict:
    """`snapshots`: for each moment, the rows that were not to be seen before it. A row that comes a
    second time is a duplicate."""
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
