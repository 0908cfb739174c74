"""The responses that clients got, compared with the logs (I1, I7, I9, I10).

In some crashes the durability settings protect acknowledged records. Call `forget` after any other
crash.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from tests.simulation.checking.decisions import PREPARES, Life, lives_of
from tests.simulation.checking.logs import PartitionLog, TopicPartition
from tests.simulation.checking.violations import Violation

Logs = Mapping[TopicPartition, PartitionLog]


@dataclass(frozen=True, slots=True)
class Appended:
    """A successful Produce with acks=all. Its batch of `count` records begins at `offset`."""

    partition: TopicPartition
    producer_id: int
    epoch: int
    base_sequence: int
    offset: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Ended:
    """A successful EndTxn for the transaction of this producer id and epoch."""

    transactional_id: str
    producer_id: int
    epoch: int
    committed: bool


@dataclass
class Promises:
    """All successful responses so far. `handed`: the client instance that got each producer id and
    epoch."""

    appended: list[Appended] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    registered: list[tuple[str, int, int, TopicPartition]] = field(default_factory=list)
    handed: dict[tuple[int, int], str] = field(default_factory=dict)
    found: list[Violation] = field(default_factory=list)

    def hands(self, producer_id: int, epoch: int, instance: str) -> None:
        """Record a response to InitProducerId, and check I10. `instance`: one life of one client.
        The retries of an instance may get the same epoch."""
        owner = self.handed.setdefault((producer_id, epoch), instance)
        if owner != instance:
            what = f"({producer_id}, {epoch}) went to {owner} and to {instance}"
            self.found.append(Violation("I10", instance, what))
        if not 0 <= epoch <= 32766:
            self.found.append(Violation("I10", instance, f"no producer may have epoch {epoch}"))

    def forget(self) -> None:
        """Forget all responses except those to InitProducerId, after a loss that no setting
        prevents."""
        self.appended.clear()
        self.ended.clear()
        self.registered.clear()

    def check(self, logs: Logs) -> list[Violation]:
        lives: defaultdict[str, list[Life]] = defaultdict(list)
        known, partial = lives_of(logs)
        for life in known:
            lives[life.transactional_id].append(life)
        found = [*self.found, *self._appends_are_there(logs)]
        if partial:  # the records may have been removed
            return found
        found += self._partitions_are_registered(lives)
        for ended in self.ended:
            found += _is_decided(ended, lives[ended.transactional_id])
        return found

    def _appends_are_there(self, logs: Logs) -> Iterator[Violation]:
        places = {
            key: {(b.producer_id, b.epoch, b.base_sequence, b.base_offset) for b in log.batches}
            for key, log in logs.items()
        }
        for ack in self.appended:
            log = logs.get(ack.partition)
            if log is None or ack.offset < log.start:
                continue
            place = (ack.producer_id, ack.epoch, ack.base_sequence, ack.offset)
            if place not in places[ack.partition]:
                yield Violation("I9", log.name, f"{ack} was acknowledged but is missing")

    def _partitions_are_registered(self, lives: Mapping[str, list[Life]]) -> Iterator[Violation]:
        known = {
            (transactional_id, transition.producer_id, transition.epoch, partition)
            for transactional_id, of_id in lives.items()
            for life in of_id
            for transition in life.transitions
            for partition in transition.partitions
        }
        for addition in self.registered:
            if addition not in known:
                transactional_id, producer_id, epoch, partition = addition
                what = f"the log lacks {partition}, added by ({producer_id}, {epoch})"
                yield Violation("I9", transactional_id, what)


def _is_decided(ended: Ended, lives: list[Life]) -> Iterator[Violation]:
    """I7, I9: the log has a decision with the result of a successful EndTxn. An abort of a
    transaction without partitions needs no decision."""
    producer = (ended.producer_id, ended.epoch)
    results: Counter[bool] = Counter()
    for life in lives:
        for before, prepared in pairwise(life.transitions):
            if prepared.state in PREPARES and before.owner == producer:
                results[PREPARES[prepared.state]] += 1
    if ended.committed and not results[True]:
        invariant = "I7" if results[False] else "I9"
        yield Violation(
            invariant, ended.transactional_id, f"the log lacks the COMMIT of {producer}"
        )
    if not ended.committed and results[True] and not results[False]:
        yield Violation(
            "I7", ended.transactional_id, f"the log has COMMIT, not ABORT, of {producer}"
        )


def check_reads(
    reads: Mapping[TopicPartition, Iterable[tuple[int, bytes | None]]], logs: Logs
) -> list[Violation]:
    """I1: check that all records of read_committed readers, as (offset, value), are committed and
    unchanged."""
    found = []
    for key, records in sorted(reads.items()):
        log = logs[key]
        visible = {(record.offset, record.value) for record in log.committed_records()}
        for offset, value in records:
            if offset >= log.visible_start and (offset, value) not in visible:
                found.append(Violation("I1", log.name, f"not committed: {value!r} at {offset}"))
    return found
