"""The cluster of an exploration: the store, the brokers, and what is on its way between them.

A world is a tuple of small numbers. Each number names a state that `Cluster` has once: a store, a
broker, a message, a write. What a broker does depends on its own state and the step alone, so each
step of each state runs the real code once, and all worlds with that state share the result. This is
no reduction of the search: every world is visited and checked.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage, PartitionImage
from oncelog_server.cluster.registration import NewRegistration, register
from oncelog_server.cluster.store import Put, Write
from tests.exploration.replication.broker_model import Broker, Rules
from tests.exploration.replication.log_model import Batches
from tests.exploration.replication.states import (
    UNKNOWN,
    BrokerState,
    Effects,
    PendingWrite,
    ProcessState,
    ReplicasState,
    Request,
    Response,
)
from tests.exploration.replication.store_model import TOPIC, TOPIC_ID, Store, partition_in

T = TypeVar("T", bound=Hashable)


class Budget(NamedTuple):
    """The number of steps of each kind that may still happen. `sessions`: sessions that end while
    the broker is up. `checks`: checks of the ISR by a leader, before or after the time for which a
    follower may lag. `delays`: requests and writes that do not arrive at once. `losses`: responses
    that are lost."""

    appends: int = 2
    kills: int = 1
    power_losses: int = 0
    stops: int = 0
    sessions: int = 1
    checks: int = 1
    elections: int = 0
    delays: int = 0
    losses: int = 0


class World(NamedTuple):
    """A world. `stores`: the newest store, and before it those that a broker has yet to see.
    `committed`: all batches that were ever below a leader's high watermark. `values`:
    the number of appended batches."""

    stores: tuple[int, ...]
    brokers: tuple[int, ...]
    messages: tuple[int, ...]
    writes: tuple[int, ...]
    committed: Batches
    values: int
    budget: Budget

    @property
    def store(self) -> int:
        """Return the newest store."""
        return self.stores[-1]

    def stored(self, store: int) -> World:
        """Return the world with a newer store."""
        return self._replace(stores=(*self.stores, store))


class Interned(Generic[T]):
    """Values by number. Equal values have one number."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._values: list[T] = []

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def number(self, value: T) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._values)
            self._values.append(value)
        return found


_EMPTY_REPLICAS: Final = ReplicasState((), (), UNKNOWN, UNKNOWN, UNKNOWN, (), (), False, ())


class Cluster:
    """All states that the brokers and the store of the worlds have had, and the steps that were
    taken from them. Brokers have the ids from 1 on."""

    def __init__(self, brokers: int, rules: Rules) -> None:
        self.rules = rules
        self.ids: Final = tuple(range(1, brokers + 1))
        self.stores: Interned[Store] = Interned()
        self.states: Interned[BrokerState] = Interned()
        self.messages: Interned[Request | Response] = Interned()
        self.writes: Interned[PendingWrite] = Interned()
        self._images: dict[int, ClusterImage] = {}
        self._applied: dict[tuple[int, Write], int | None] = {}
        self._taken: dict[tuple[Hashable, ...], tuple[int, Effects]] = {}

    # --- the store

    def image(self, store: int) -> ClusterImage:
        found = self._images.get(store)
        if found is None:
            found = self._images[store] = self.stores[store].image()
        return found

    def partition(self, store: int) -> PartitionImage:
        return partition_in(self.image(store))

    def applied(self, store: int, write: Write) -> int | None:
        """Return the store after a write, None if a condition does not hold."""
        key = store, write
        if key not in self._applied:
            after = self.stores[store].applied(write)
            self._applied[key] = None if after is None else self.stores.number(after)
        return self._applied[key]

    # --- the brokers

    def broker(self, index: int, state: int) -> Broker:
        return Broker(self.ids[index], self.states[state], self.rules, self.image)

    def take(self, index: int, state: int, step: str, *about: Hashable) -> tuple[int, Effects]:
        """Return the state of a broker after a step of its own, and the effects of the step outside
        of the broker."""
        key = index, state, step, *about
        found = self._taken.get(key)
        if found is None:
            broker = self.broker(index, state)
            before = broker.state()
            message = getattr(broker, step)(*about)
            after = broker.state()
            wrong = tuple(_wrong_move(broker, before, after))
            found = self.states.number(after), broker.effects(message, wrong)
            self._taken[key] = found
        return found

    def registration(self, index: int, state: BrokerState, store: int, number: int) -> Write:
        """Return the write with which a process registers its broker."""
        broker_id = self.ids[index]
        new = NewRegistration(
            broker_id,
            f"directory-{broker_id}",
            f"{broker_id}.{number}",
            (),
            None,
            {},
            f"boot-{state.boot}",
            state.clean_stop,
            self.rules.flush_on_ack,
        )
        return register(self.image(store).registrations.get(broker_id), new, 0)

    def started(self, index: int, state: BrokerState, store: int) -> int:
        """Return the broker with a new process, which is registered in `store`."""
        length = len(state.batches)
        number = state.processes
        process = ProcessState(
            number,
            store,
            -1,
            -1,
            False,
            min(state.checkpoint, length),
            _epochs_of(state.batches),
            (),
            _EMPTY_REPLICAS,
            UNKNOWN,
            UNKNOWN,
            (),
            UNKNOWN,
            False,
        )
        broker = Broker(self.ids[index], state._replace(process=process), self.rules, self.image)
        broker.started()
        return self.states.number(broker.state())


def _epochs_of(batches: Batches) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs that a start finds in a log."""
    return tuple(
        (batch.epoch, offset)
        for offset, batch in enumerate(batches)
        if not offset or batches[offset - 1].epoch != batch.epoch
    )


def _wrong_move(broker: Broker, before: BrokerState, after: BrokerState) -> list[str]:
    """Return the violations that a move of the high watermark shows without a look at other brokers
    or the store."""
    old, new = before.process, after.process
    assert old is not None
    assert new is not None
    wrong = []
    if new.high_watermark > len(after.batches):
        wrong.append(f"HighWatermark: {new.high_watermark} of a log to {len(after.batches)}")
    if not new.leads:
        if broker.acks:
            wrong.append("Deposed: a broker that does not lead acknowledges")
        return wrong
    is_same_leader = old.leads and old.leader_epoch == new.leader_epoch
    if is_same_leader and new.high_watermark < old.high_watermark:
        wrong.append(f"HighWatermark: from {old.high_watermark} to {new.high_watermark}")
    if new.high_watermark > old.high_watermark:
        replicas = new.replicas
        least = min(broker.partition.replicas.effective_min_isr, len(replicas.assignment))
        if len(replicas.isr) < least or replicas.has_elr:
            wrong.append(f"MinIsr: a move to {new.high_watermark} with the ISR {replicas.isr}")
    for end_offset, batch in broker.acks:
        committed = after.batches[: new.high_watermark]
        if committed[end_offset - 1 : end_offset] != (batch,):
            wrong.append(f"Acknowledged: {batch} at {end_offset - 1} of {committed}")
    return wrong


def first_world(cluster: Cluster, budget: Budget, *, leader: int = 1) -> World:
    """Return the world in which all brokers are registered, in the ISR and at the newest image, and
    `leader` leads an empty partition in epoch 1."""
    disk = BrokerState(processes=1)
    store = cluster.stores.number(Store())
    for index in range(len(cluster.ids)):
        store = _after(cluster, store, cluster.registration(index, disk, store, 1))
    ids = cluster.ids
    topic_id = uuid_to_string(TOPIC_ID)
    partition = records.PartitionRecord(ids, ids, leader, 1, isr_epochs=(1,) * len(ids))
    puts = {
        records.CONTROLLER: records.ControllerRecord(1),
        records.topic_key(TOPIC): records.TopicRecord(topic_id, 1, {}),
        records.partition_key(topic_id, 0): partition,
    }
    write = Write((), tuple(Put(key, records.encode(value)) for key, value in puts.items()))
    store = _after(cluster, store, write)
    brokers = []
    for index in range(len(ids)):
        state = cluster.started(index, disk, store)
        broker = cluster.broker(index, state)
        broker._lead_or_follow()
        brokers.append(cluster.states.number(broker.state()))
    return World((store,), tuple(brokers), (), (), (), 0, budget)


def _after(cluster: Cluster, store: int, write: Write) -> int:
    after = cluster.applied(store, write)
    assert after is not None
    return after
