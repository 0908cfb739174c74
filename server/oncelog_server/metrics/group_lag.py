"""The lag of each consumer group in each partition, up to the last stable offset, and the records
that open transactions hold back.

A difference of offsets counts markers, aborted and undecided records as well. Here records are
counted by the headers of their batches, and the counts up to some offsets are kept. The difference
of two such counts is the number of records between the two offsets. So a scrape walks only the
batches that were written or committed since the last scrape."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Generator, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from oncelog_server.group.views import GroupViews
from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import TURN, WORK
from oncelog_server.partition.readable_views import ReadableViews
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.partitions import ReadableView

# Maximum number of series of each metric on a page.
MAX_SERIES: Final = 10_000
# Maximum number of steps of all walks in one scrape. A step takes about 0.5 ms.
MAX_STEPS: Final = 200

_Place: TypeAlias = tuple[TopicPartition, bytes]  # a partition and its topic's id


class Committed(NamedTuple):
    """A group's committed offset for a partition, not below the log's start."""

    group_id: str
    offset: int


class KnownCounts:
    """Counts of readable records for some offsets of one log. Each count begins at the lowest of
    these offsets and ends at its own offset."""

    __slots__ = ("_counts",)

    def __init__(self, counts: Iterable[tuple[int, int]] = ()) -> None:
        self._counts = list(counts)

    def copy(self) -> KnownCounts:
        """Return the same counts, for changes that leave these as they are."""
        return KnownCounts(self._counts)

    def begin_at(self, offset: int) -> None:
        """Begin new counts at `offset`, unless this or a lower offset is known."""
        if not self._counts or offset < self._counts[0][0]:
            self._counts = [(offset, 0)]

    def floor(self, offset: int) -> tuple[int, int]:
        """Return the highest known offset that is not above `offset`, and its count."""
        return self._counts[bisect_right(self._counts, offset, key=lambda known: known[0]) - 1]

    def learn(self, offset: int, count: int) -> None:
        if self.floor(offset)[0] != offset:
            insort(self._counts, (offset, count))

    def between(self, first: int, end: int) -> int | None:
        """Return the number of readable records in `first`..`end`. Return None if the count at
        `first` or `end` is not known."""
        (low, below_first), (high, below_end) = self.floor(first), self.floor(end)
        return below_end - below_first if (low, high) == (first, end) else None

    def keep(self, offsets: set[int]) -> None:
        """Drop all counts except those at `offsets` and the count at the highest known offset. The
        next walk continues from the highest."""
        highest = self._counts[-1:]
        self._counts = [known for known in self._counts[:-1] if known[0] in offsets] + highest


class GroupLag:
    """Makes the lines for the page of `/metrics`. Keeps the counts from scrape to scrape. Several
    scrapes may run at a time: each changes its own copies, which replace the kept counts at its
    end."""

    def __init__(self, groups: GroupViews, partitions: ReadableViews) -> None:
        self._groups = groups
        self._partitions = partitions
        self._known: dict[_Place, KnownCounts] = {}

    def lines(self) -> Iterator[str]:
        """Yield lag and held-back records of every group, with a turn of the loop after each
        step."""
        count = _Count(self._partitions)
        by_partition, omitted = yield from self._committed()
        before = self._known
        known: dict[_Place, KnownCounts] = {}
        lags: list[str] = []
        held: list[str] = []
        for place, committed in by_partition.items():
            name, topic_id = place
            view = self._partitions.view(name)
            if view is None or view.topic_id != topic_id:
                continue
            kept = before.get(place)
            counts = KnownCounts() if kept is None else kept.copy()
            if not view.is_compacted:
                known[place] = counts  # compaction would change kept counts
            try:
                lag_of, held_of = yield from count.lags(view, counts, committed)
            except Refused:
                continue  # other metrics report offline partitions
            topic, index = name
            for commit in committed:
                yield WORK
                labels = commit.group_id, topic, str(index)
                lags.append(metrics.GROUP_LAG.line(lag_of[commit.offset], *labels))
                held.append(metrics.GROUP_HELD_BACK.line(held_of[commit.offset], *labels))
        self._known = known
        yield metrics.GROUP_LAG.head()
        yield from lags
        yield metrics.GROUP_HELD_BACK.head()
        yield from held
        yield from metrics.GROUP_LAG_OMITTED.only(omitted)

    def _committed(self) -> Generator[str, None, tuple[dict[_Place, list[Committed]], int]]:
        """Return the committed offsets of partitions led here, and the number of offsets that are
        left out. The offsets are listed by partition, so that the groups of a partition share one
        walk."""
        found: dict[_Place, list[Committed]] = {}
        count = 0
        for commit in self._groups.offsets():
            yield WORK
            view = self._partitions.view(commit.partition)
            if view is None:
                continue
            count += 1
            if count <= MAX_SERIES:
                start = max(commit.offset, view.log_start_offset)
                rows = found.setdefault((commit.partition, view.topic_id), [])
                rows.append(Committed(commit.group_id, start))
        return found, max(count - MAX_SERIES, 0)


class _Count:
    """The count of one scrape, in at most MAX_STEPS steps."""

    def __init__(self, partitions: ReadableViews) -> None:
        self._partitions = partitions
        self._steps_left = MAX_STEPS

    def lags(
        self, view: ReadableView, counts: KnownCounts, committed: list[Committed]
    ) -> Generator[str, None, tuple[dict[int, int], dict[int, int]]]:
        """Return lag and held-back records by committed offset."""
        stable, end = view.last_stable_offset, view.high_watermark
        starts = sorted({commit.offset for commit in committed})
        lag_of = dict.fromkeys(starts, 0)
        held_of: dict[int, int] = {}
        below = [start for start in starts if start < stable]
        if below:
            counts.begin_at(below[0])
            for offset in (*below, stable):
                yield from self._walk_to(view, counts, offset)
            for start in below:
                found = counts.between(start, stable)
                lag_of[start] = stable - start if found is None else found
            counts.keep({*below, stable})
        undecided: dict[int, int] = {}
        for start in starts:
            first = max(start, stable)
            if first not in undecided:
                undecided[first] = yield from self._undecided(view, first, end)
            held_of[start] = undecided[first]
        return lag_of, held_of

    def _walk_to(self, view: ReadableView, counts: KnownCounts, offset: int) -> Iterator[str]:
        """Count up to `offset`, or as far as the remaining steps of this scrape allow."""
        first, below = counts.floor(offset)
        if first == offset or self._steps_left <= 0:
            return
        for walked in self._partitions.walk(view, first, offset):
            counts.learn(walked.reached, below + walked.records)
            self._steps_left -= 1
            yield TURN
            if self._steps_left <= 0:
                return

    def _undecided(self, view: ReadableView, first: int, end: int) -> Generator[str, None, int]:
        """Return the number of records of `first`..`end` that are not aborted. If the steps left
        in this scrape do not reach `end`, each remaining offset counts as a record."""
        count = 0
        reached = first
        for walked in self._partitions.walk(view, first, end):
            reached, count = walked.reached, walked.records
            self._steps_left -= 1
            yield TURN
            if self._steps_left <= 0:
                break
        return count + max(end - reached, 0)
