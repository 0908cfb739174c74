"""Checks of every state that the model of the brokers can reach (a world) against the logs in this
state: the invariants I2 to I9 and I11 of docs/testing.md."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from oncelog_server.coordinator.shard import CoordinatorRecord
from tests.exploration.coordinator_model import Appended
from tests.exploration.partition_model import Entry, Ghost
from tests.exploration.steps import commit, deliver_marker, time_out
from tests.exploration.world_model import Budget, WorldModel
from tests.simulation.checking.decisions import FOLLOWING, PREPARES
from tests.simulation.checking.internal_records import ONGOING, Transition, transition_of


class Reading(NamedTuple):
    """The contents of a partition's log. `wrong`: the violations. `outcomes`: the ended
    transactions, with True for a commit. `unstable`: the first offset of an open transaction, or
    the log's end."""

    wrong: tuple[str, ...]
    outcomes: tuple[tuple[Ghost, bool], ...]
    unstable: int


@lru_cache(maxsize=1 << 16)
def read_log(log: tuple[Entry, ...]) -> Reading:
    """Return the contents of one partition's log, with the violations of I3, I4 and I11."""
    wrong: list[str] = []
    outcomes: list[tuple[Ghost, bool]] = []
    opened: dict[int, tuple[int, Entry]] = {}
    newest: dict[int, int] = {}
    coordinators: dict[int, int] = {}
    sequences: set[tuple[int, int, int]] = set()
    for offset, entry in enumerate(log):
        producer_id = entry.producer_id
        if entry.epoch < newest.get(producer_id, -1):
            wrong.append(f"I11: epoch {entry.epoch} at {offset} is below an earlier epoch")
        newest[producer_id] = entry.epoch
        if entry.committed is not None:
            if entry.coordinator_epoch < coordinators.get(producer_id, -1):
                wrong.append(
                    f"I11: coordinator epoch {entry.coordinator_epoch} at {offset} is too low"
                )
            coordinators[producer_id] = entry.coordinator_epoch
            first = opened.pop(producer_id, None)
            if first is not None and first[1].ghost is not None:
                outcomes.append((first[1].ghost, entry.committed))
            continue
        producer = (producer_id, entry.epoch, entry.sequence)
        if producer in sequences:
            wrong.append(f"I3: {producer} at {offset} is a duplicate")
        sequences.add(producer)
        _, first_entry = opened.setdefault(producer_id, (offset, entry))
        if (first_entry.ghost, first_entry.epoch) != (entry.ghost, entry.epoch):
            wrong.append(f"I4: {entry.ghost} at {offset} in the transaction of {first_entry.ghost}")
    unstable = min((first for first, _ in opened.values()), default=len(log))
    return Reading(tuple(wrong), tuple(outcomes), unstable)


@lru_cache(maxsize=1 << 14)
def _read(record: CoordinatorRecord) -> Transition:
    return transition_of(record.key, record.value, 0, 0)


@lru_cache(maxsize=1 << 16)
def read_transactions(log: tuple[Appended, ...]) -> tuple[tuple[str, ...], tuple[Transition, ...]]:
    """Check the order of states (I7) and of epochs (I11). Return the violations and the records."""
    wrong: list[str] = []
    states: dict[str, int | None] = {}
    epochs: dict[int, int] = {}
    found = []
    for appended in log:
        transition = _read(appended.record)._replace(leader_epoch=appended.coordinator_epoch)
        name = transition.transactional_id
        if transition.state not in FOLLOWING[states.get(name)]:
            wrong.append(f"I7: {transition.state} after {states.get(name)} of {name}")
        states[name] = transition.state
        if transition.epoch < epochs.get(transition.producer_id, -1):
            wrong.append(f"I11: epoch {transition.epoch} of {name} is below an earlier epoch")
        epochs[transition.producer_id] = transition.epoch
        found.append(transition)
    return tuple(wrong), tuple(found)


def check(world: WorldModel) -> Iterator[str]:
    """Yield every violation, except those of I8 (see `Endings`). The contents of logs are cached,
    which makes most checks cheap."""
    yield from world.violations
    coordinator = world.coordinator
    wrong, transitions = read_transactions(coordinator.log[: coordinator.committed])
    yield from wrong
    outcomes: dict[Ghost, bool] = {}
    for index, partition in enumerate(world.partitions):
        reading = read_log(partition.log)
        yield from reading.wrong
        if partition.last_stable_offset() != reading.unstable:
            yield f"I2: LSO {partition.last_stable_offset()}, the log says {reading.unstable}"
        for ghost, committed in reading.outcomes:
            if committed and (ghost, True) not in world.asked:
                yield f"I7: {ghost} is committed, but its client never requested a commit"
            if outcomes.setdefault(ghost, committed) != committed:
                yield f"I5: {ghost} is committed in one partition and aborted in another"
        yield from _known(index, partition.log, transitions)
    for answered in world.answered:
        outcome = outcomes.get(answered.ended.ghost, answered.ended.committed)
        if outcome != answered.ended.committed:
            yield f"I7: {answered} was answered, but the markers have the opposite outcome"
        if not _is_decided(answered.ended.producer, answered.ended.committed, transitions):
            yield f"I9: {answered} was answered, but its decision is not in the log"


@lru_cache(maxsize=1 << 16)
def _known(
    index: int, log: tuple[Entry, ...], transitions: tuple[Transition, ...]
) -> tuple[str, ...]:
    """Return the violations of I6. The coordinator's log must have a decision for every marker. For
    every record, it must have the record's partition in an ongoing transaction."""
    wrong = []
    for offset, entry in enumerate(log):
        producer, name = (entry.producer_id, entry.epoch), ("a", index)
        known = any(
            (transition.producer_id, transition.epoch) == producer
            and name in transition.partitions
            and (
                transition.state == ONGOING
                if entry.committed is None
                else PREPARES.get(transition.state or 0) == entry.committed
                and transition.leader_epoch <= entry.coordinator_epoch
            )
            for transition in transitions
        )
        if not known:
            wrong.append(
                f"I6: {entry} at {offset} of partition {index} is not in the coordinator's log"
            )
    return tuple(wrong)


def _is_decided(
    producer: tuple[int, int], committed: bool, transitions: tuple[Transition, ...]
) -> bool:
    """Return True if the coordinator's log has the decision, with the producer's epoch or the next
    epoch (KIP-890)."""
    producer_id, epoch = producer
    return any(
        PREPARES.get(transition.state or 0) == committed
        and transition.producer_id == producer_id
        and transition.epoch in (epoch, epoch + 1)
        for transition in transitions
    )


class Endings:
    """Checks I8: without further faults, every transaction is decided and readers get every
    record."""

    def __init__(self) -> None:
        self._sound: set[int] = set()

    def check(self, world: WorldModel) -> list[str]:
        """Continue a copy of the world without faults until all transactions are decided. Return
        the violations after that. Stop early at a state that an earlier check has reached without
        a violation."""
        healed = world.clone()
        healed.budget = Budget(0, 0, 0, 0, 0)
        way: list[int] = []
        quiet = 0
        while quiet < 2:
            key = healed.key()
            if key in self._sound:
                self._sound.update(way)
                return []
            way.append(key)
            if healed.coordinator.waiting:
                commit(healed)
            elif healed.owed:
                deliver_marker(healed, 0, is_answered=True)
            else:
                quiet += 1
                time_out(healed)
        found = [*check(healed), *_unfinished(healed)]
        if not found:
            self._sound.update(way)
        return found


def _unfinished(world: WorldModel) -> Iterator[str]:
    if world.coordinator.shard.prepared or world.coordinator.shard.ongoing:
        yield "I8: a transaction is not decided in the end"
    for index, partition in enumerate(world.partitions):
        if partition.last_stable_offset() != len(partition.log):
            yield f"I8: readers of partition {index} are held back forever"
