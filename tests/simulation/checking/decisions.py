"""Checks of `__transaction_state` against the markers in the partitions (I5 to I7), and of the
history of each transactional id (I5, I7, I10, I11, and scenario T6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.simulation.checking.internal_records import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    FENCING,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    STATE_NAMES,
    Transition,
    read_transitions,
)
from tests.simulation.checking.logs import TRANSACTION_STATE, PartitionLog, TopicPartition
from tests.simulation.checking.partition_rules import is_partial
from tests.simulation.checking.violations import Violation

# The first transaction version in which each decision bumps the epoch (KIP-890).
BUMPING = 2
PREPARES = {PREPARE_COMMIT: True, PREPARE_ABORT: False}
COMPLETES = {COMPLETE_COMMIT: True, COMPLETE_ABORT: False}
# The states that may follow each state (KIP-98, and KIP-890's abort of an empty transaction). None:
# no record yet, or a tombstone.
FOLLOWING: dict[int | None, set[int | None]] = {
    None: {None, EMPTY},
    EMPTY: {None, EMPTY, ONGOING, PREPARE_ABORT, DEAD},
    ONGOING: {ONGOING, PREPARE_COMMIT, PREPARE_ABORT, FENCING},
    FENCING: {PREPARE_ABORT},
    PREPARE_COMMIT: {COMPLETE_COMMIT},
    PREPARE_ABORT: {COMPLETE_ABORT},
    COMPLETE_COMMIT: {None, EMPTY, ONGOING, PREPARE_ABORT, DEAD},
    COMPLETE_ABORT: {None, EMPTY, ONGOING, PREPARE_ABORT, DEAD},
    # The id has moved to the log of its group's coordinator and may come back (KIP-447, early
    # draft).
    DEAD: {None, EMPTY},
}


class Decision(NamedTuple):
    """A PREPARE record and its result. `is_complete`: COMPLETE follows the record."""

    prepared: Transition
    committed: bool
    is_complete: bool

    @property
    def marker(self) -> tuple[int, int]:
        """Return the producer id and epoch of the markers."""
        return self.prepared.producer_id, self.prepared.epoch


class Life:
    """All records of one transactional id in one partition of the coordinator's log, in order."""

    def __init__(
        self, partition: int, transactional_id: str, transitions: list[Transition]
    ) -> None:
        self.partition = partition
        self.transactional_id = transactional_id
        self.transitions = transitions

    def decisions(self) -> Iterator[Decision]:
        for n, transition in enumerate(self.transitions):
            if transition.state in PREPARES:
                committed = PREPARES[transition.state]
                followed = n + 1 < len(self.transitions)
                yield Decision(transition, committed, followed)

    def registered(self) -> Iterator[tuple[int, int, frozenset[TopicPartition]]]:
        """Yield the producer id, the epoch and all partitions of each transaction."""
        last: Transition | None = None
        for transition in self.transitions:
            if last is not None and last.state == ONGOING and transition.state != ONGOING:
                yield last.producer_id, last.epoch, last.partitions
            last = transition
        if last is not None and last.state == ONGOING:
            yield last.producer_id, last.epoch, last.partitions


def lives_of(logs: Mapping[TopicPartition, PartitionLog]) -> tuple[list[Life], bool]:
    """Return the lives, in the order of partition and transactional id. Also return True if
    compaction or retention may have removed records."""
    found: defaultdict[tuple[int, str], list[Transition]] = defaultdict(list)
    partial = False
    for (topic, index), log in sorted(logs.items()):
        if topic == TRANSACTION_STATE:
            partial = partial or is_partial(log)
            for transition in read_transitions(log):
                found[index, transition.transactional_id].append(transition)
    return [Life(*key, found[key]) for key in sorted(found)], partial


def check_lives(lives: list[Life], *, partial: bool) -> Iterator[Violation]:
    """Check I5, I7 (the order of states), I10, I11 and T6 in the coordinator's log alone."""
    owners: dict[int, str] = {}
    for life in lives:
        for transition in life.transitions:
            owner = owners.setdefault(transition.producer_id, life.transactional_id)
            if transition.producer_id >= 0 and owner != life.transactional_id:
                what = f"producer id {transition.producer_id} is also that of {owner}"
                yield Violation("I10", life.transactional_id, what)
        yield from _check_life(life, partial)


def _check_life(life: Life, partial: bool) -> Iterator[Violation]:
    before: Transition | None = None
    epochs: dict[int, int] = {}
    for now in life.transitions:
        where = f"offset {now.offset}"
        state = None if before is None else before.state
        known = before is not None or not partial
        if known and not partial and now.state not in FOLLOWING[state]:
            what = f"{where}: {_name(now.state)} after {_name(state)}"
            yield Violation("I7", life.transactional_id, what)
        if now.state is not None:
            if now.epoch < epochs.get(now.producer_id, -1):
                yield Violation("I11", life.transactional_id, f"{where}: epoch {now.epoch}")
            epochs[now.producer_id] = now.epoch
        if before is not None and before.state == ONGOING and now.state is not None:
            # A power failure may undo a part of a compaction. The log may then have an older
            # transaction without its end before the newest transaction.
            is_same = not partial or now.start_ms == before.start_ms
            if now.state == ONGOING and is_same and not before.partitions <= now.partitions:
                yield Violation("I5", life.transactional_id, f"{where}: a partition is forgotten")
            if now.state in PREPARES and now.partitions != before.partitions and not partial:
                yield Violation("I5", life.transactional_id, f"{where}: not its partitions")
            if now.state == ONGOING and now.start_ms != before.start_ms and not partial:
                yield Violation("T6", life.transactional_id, f"{where}: it starts again")
        before = now


def _name(state: int | None) -> str:
    return "nothing" if state is None else STATE_NAMES[state]


class Marker(NamedTuple):
    """A marker. `effective`: the marker ended a transaction with records in this partition."""

    offset: int
    committed: bool
    coordinator_epoch: int
    effective: bool


def markers_of(log: PartitionLog) -> dict[tuple[int, int], list[Marker]]:
    """Return the markers by producer id and epoch, in the order of the log."""
    ends = {transaction.last for transaction in log.whole.transactions}
    found: defaultdict[tuple[int, int], list[Marker]] = defaultdict(list)
    for batch in log.batches:
        if batch.marker is not None:
            committed, epoch = batch.marker
            marker = Marker(batch.base_offset, committed, epoch, batch.base_offset in ends)
            found[batch.producer_id, batch.epoch].append(marker)
    return dict(found)


def check_markers(
    logs: Mapping[TopicPartition, PartitionLog],
    lives: list[Life],
    *,
    partial: bool,
    recreated: frozenset[TopicPartition],
    by_operator: frozenset[tuple[int, int]],
) -> Iterator[Violation]:
    """Check I5, I6, I7: every marker has a decision, and every decision with a COMPLETE record has
    its markers.

    `by_operator`: producer ids and epochs that an operator ended by WriteTxnMarkers.
    """
    decided: defaultdict[TopicPartition, defaultdict[tuple[int, int], list[Decision]]]
    decided = defaultdict(lambda: defaultdict(list))
    for life in lives:
        for decision in life.decisions():
            for partition in decision.prepared.partitions:
                decided[partition][decision.marker].append(decision)
    for key, log in sorted(logs.items()):
        if log.topic == TRANSACTION_STATE or key in recreated:
            continue
        written = markers_of(log)
        for producer in sorted(written.keys() | decided[key].keys()):
            decisions = decided[key].get(producer, [])
            if producer in by_operator:
                continue
            if partial and _may_lack(decisions):
                if not is_partial(log):
                    yield from _check_ends(log.name, producer, written.get(producer, []), decisions)
                continue
            # Retention may have deleted the first markers with the start of the log.
            cut = partial or is_partial(log)
            yield from _match(log.name, producer, written.get(producer, []), decisions, cut)


def _may_lack(decisions: list[Decision]) -> bool:
    """Return True if compaction may have removed decisions of this producer id and epoch.

    From transaction version 2 on, an epoch has one decision (KIP-890). In an earlier version it has
    any number of decisions, and compaction may have removed some of them.
    """
    return not decisions or any(decision.prepared.version < BUMPING for decision in decisions)


def _check_ends(
    where: str, producer: tuple[int, int], markers: list[Marker], decisions: list[Decision]
) -> Iterator[Violation]:
    """Check that each complete decision has a marker, in their order. Other decisions of the epoch
    may be missing, so other markers may stand between these."""
    left = iter(markers)
    for decision in decisions:
        if decision.is_complete and not any(m.committed == decision.committed for m in left):
            result = "COMMIT" if decision.committed else "ABORT"
            yield Violation("I5", where, f"{producer} is complete without its {result} here")
            return


def _match(
    where: str,
    producer: tuple[int, int],
    markers: list[Marker],
    decisions: list[Decision],
    cut: bool,
) -> Iterator[Violation]:
    """Match markers to decisions. Each decision has one or more markers, in order. An effective
    marker is the first marker of the next decision. Any other marker may also repeat the decision
    of the marker before it.

    Decisions of one epoch (before KIP-890) differ only in their order, so the function follows all
    possible matches at the same time. `places`: the indexes of the decisions that the last marker
    may belong to.
    """
    places = set(range(-1, len(decisions))) if cut else {-1}
    for marker in markers:
        following = set()
        for place in places:
            candidates = [place + 1] if marker.effective else [place, place + 1]
            following |= {
                n
                for n in candidates
                if 0 <= n < len(decisions)
                and decisions[n].committed == marker.committed
                and decisions[n].prepared.leader_epoch <= marker.coordinator_epoch
            }
        if not following:
            kind = "COMMIT" if marker.committed else "ABORT"
            other = any(decision.committed != marker.committed for decision in decisions)
            what = f"{kind} of {producer} at offset {marker.offset} has no decision"
            yield Violation("I7" if other else "I6", where, what)
            return
        places = following
    owed = max((n for n, decision in enumerate(decisions) if decision.is_complete), default=-1)
    if max(places) < owed and not cut:
        result = "COMMIT" if decisions[owed].committed else "ABORT"
        yield Violation("I5", where, f"{producer} has COMPLETE, but no {result} marker here")


def check_registered(
    logs: Mapping[TopicPartition, PartitionLog],
    lives: list[Life],
    *,
    partial: bool,
    recreated: frozenset[TopicPartition],
) -> Iterator[Violation]:
    """Check that each partition with records of a transaction was added to the transaction
    (KIP-890)."""
    registered: defaultdict[tuple[TopicPartition, int, int], int] = defaultdict(int)
    for life in lives:
        for producer_id, epoch, partitions in life.registered():
            for partition in partitions:
                registered[partition, producer_id, epoch] += 1
    for key, log in sorted(logs.items()):
        if partial or is_partial(log) or key in recreated:
            continue
        met: defaultdict[tuple[int, int], int] = defaultdict(int)
        for transaction in log.whole.transactions:
            producer = (transaction.producer_id, transaction.epoch)
            met[producer] += 1
            if met[producer] > registered[key, *producer]:
                what = f"not in the transaction of {producer} that begins at {transaction.first}"
                yield Violation("I5", log.name, what)
