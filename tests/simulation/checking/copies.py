"""I13: a transactional copy loop copies every record once, in spite of all faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

from tests.simulation.checking.violations import Violation

P = TypeVar("P")


def check_copies(
    inputs: Mapping[P, Iterable[int]],
    outputs: Iterable[tuple[P, int]],
    committed: Mapping[P, int],
) -> list[Violation]:
    """Check the copies. `inputs`: the offsets of the records in each input partition. `outputs`:
    the source partition and offset of each committed copy. `committed`: the group's committed
    offset for each input partition."""
    made = Counter(outputs)
    found = []
    for partition, offsets in inputs.items():
        end = committed.get(partition, 0)
        for offset in offsets:
            copies, due = made.pop((partition, offset), 0), int(offset < end)
            if copies != due:
                what = f"offset {offset} was copied {copies} times, not {due} (committed: {end})"
                found.append(Violation("I13", str(partition), what))
    for (partition, offset), copies in made.items():
        what = f"{copies} copies of offset {offset}, which does not exist"
        found.append(Violation("I13", str(partition), what))
    return found
