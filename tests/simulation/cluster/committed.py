"""The ledger of all batches that were ever below a high watermark, by partition."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.simulation.cluster.batches import BatchId


class Committed:
    """A batch that has once been below a high watermark must stay in the log of each electable
    replica forever, at the same offset."""

    def __init__(self) -> None:
        self._batches: defaultdict[str, list[BatchId]] = defaultdict(list)

    def __iter__(self) -> Iterator[str]:
        return iter(self._batches)

    def forget(self, partition: str) -> None:
        """Forget the batches of a partition of a deleted topic."""
        self._batches.pop(partition, None)

    def end(self, partition: str) -> int:
        """Return the highest high watermark of a partition that any leader has had."""
        batches = self._batches.get(partition)
        return batches[-1].last + 1 if batches else 0

    def extend(
        self, partition: str, log: Sequence[BatchId], first: int, high_watermark: int
    ) -> str | None:
        """Add the batches of a leader's log from offset `first` up to its high watermark. Return a
        difference from the batches that were committed before, or None if there is no
        difference."""
        present = self._batches[partition]
        end = self.end(partition)
        wrong = self.missing(partition, log, first, min(high_watermark, end))
        if wrong is None:
            present += (batch for batch in log if end <= batch.base and batch.last < high_watermark)
            if self.end(partition) < high_watermark:
                return f"the log ends before the high watermark {high_watermark}"
        return wrong

    def missing(
        self, partition: str, log: Sequence[BatchId], first: int = 0, end: int | None = None
    ) -> str | None:
        """Return the first difference of a log from the committed batches that begin at `first` or
        above and end below `end`. Return None if the log has them all."""
        present = self._batches.get(partition) or []
        at = bisect_left(log, first, key=lambda batch: batch.base)
        for batch in present[bisect_left(present, first, key=lambda batch: batch.base) :]:
            if end is not None and batch.last >= end:
                break
            found = log[at] if at < len(log) else None
            if found != batch:
                return f"committed {batch}, found {found}"
            at += 1
        return None
