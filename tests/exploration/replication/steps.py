"""The steps of a world."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from oncelog_server.cluster import records
from oncelog_server.cluster.controller import elect_leaders, elect_preferred_leaders
from oncelog_server.cluster.store import Created, Put, Write
from oncelog_server.fetcher.followed import Phase
from oncelog_server.replica.isr_changes import IsrOutcome
from tests.exploration.replication.states import (
    UNKNOWN,
    BrokerState,
    Effects,
    PendingWrite,
    Request,
    Response,
)
from tests.exploration.replication.store_model import session_ended
from tests.exploration.replication.world import Cluster, World

CONTROLLER: Final = 0


class Step(NamedTuple):
    """A step. `which`: the index of the broker, the message or the write."""

    name: str
    which: int = -1

    def __str__(self) -> str:
        return self.name if self.which < 0 else f"{self.name} {self.which + 1}"


class Taken(NamedTuple):
    """A step, the world after it, and the rules that the step itself violates."""

    step: Step
    world: World
    wrong: tuple[str, ...] = ()


class Steps:
    """The steps of the worlds of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._elections: dict[int, Write | None] = {}
        self._preferred: dict[int, Write | None] = {}

    def of(self, world: World) -> Iterator[Taken]:
        """Yield all steps. Their order is the same in every run."""
        for taken in self._all(world):
            yield taken if len(taken.world.stores) == 1 else self._without_past(taken)

    def _without_past(self, taken: Taken) -> Taken:
        """Return the step without the stores that are older than what all brokers have seen."""
        world, states = taken.world, self._cluster.states
        seen = [
            process.image
            for process in (states[number].process for number in world.brokers)
            if process is not None
        ]
        stores = world.stores
        first = min((stores.index(store) for store in seen), default=len(stores) - 1)
        return taken._replace(world=world._replace(stores=stores[first:])) if first else taken

    def _all(self, world: World) -> Iterator[Taken]:
        cluster = self._cluster
        for index, number in enumerate(world.brokers):
            state = cluster.states[number]
            if state.process is None:
                yield from self._of_stopped(world, index, state)
            else:
                yield from self._of_running(world, index, state)
                yield from self._fetches(world, index, state)
        yield from self._messages(world)
        yield from self._writes(world)
        yield from self._controller(world)

    # --- brokers

    def _of_running(self, world: World, index: int, state: BrokerState) -> Iterator[Taken]:
        process, budget = state.process, world.budget
        assert process is not None
        image = self._cluster.image(world.store)
        if process.image != world.store:
            newer = world.stores[world.stores.index(process.image) + 1]
            yield self._step(world, "image at", index, "follow_image", newer)
        if process.leads:
            if budget.appends:
                spent = world._replace(
                    budget=budget._replace(appends=budget.appends - 1), values=world.values + 1
                )
                yield self._step(spent, "append at", index, "append", world.values)
            if budget.checks:
                spent = world._replace(budget=budget._replace(checks=budget.checks - 1))
                yield self._step(spent, "check of", index, "check")
                yield self._step(spent, "late check of", index, "check_late")
        if process.flushing != UNKNOWN:
            yield self._step(world, "flush of", index, "end_flush")
        for fetcher in process.fetchers:
            if fetcher.followed is not None and fetcher.followed.phase is Phase.SYNCING:
                yield self._step(world, "sync of", index, "end_sync", fetcher.leader_id)
        broker_id = self._cluster.ids[index]
        if broker_id not in image.brokers:
            write = self._cluster.registration(index, state, world.store, process.number)
            yield Taken(Step("registration of", index), self._stored(world, write))
        elif budget.sessions:
            spent = world._replace(budget=budget._replace(sessions=budget.sessions - 1))
            yield Taken(
                Step("end of the session of", index), self._stored(spent, session_ended(broker_id))
            )
        yield from self._ends(world, index, state)

    def _ends(self, world: World, index: int, state: BrokerState) -> Iterator[Taken]:
        """Yield the steps after which the process has ended."""
        budget = world.budget
        broker_id = self._cluster.ids[index]
        image = self._cluster.image(world.store)
        if budget.kills:
            spent = world._replace(budget=budget._replace(kills=budget.kills - 1))
            yield Taken(Step("kill of", index), self._ended(spent, index, state))
        if budget.power_losses:
            spent = world._replace(budget=budget._replace(power_losses=budget.power_losses - 1))
            left = state._replace(
                batches=state.batches[: state.recovery_point],
                boot=state.boot + 1,
                lost=0 if self._cluster.rules.flush_on_ack else self._newest_epoch(world, index),
            )
            yield Taken(Step("power loss of", index), self._ended(spent, index, left))
        if budget.stops and broker_id in image.brokers:
            if broker_id not in image.draining:
                put = Put(records.draining_key(broker_id), records.encode(records.DrainingRecord()))
                epoch = image.brokers[broker_id].epoch
                write = Write((Created(records.broker_key(broker_id), epoch),), (put,))
                yield Taken(Step("drain of", index), self._stored(world, write))
            else:
                spent = world._replace(budget=budget._replace(stops=budget.stops - 1))
                left = state._replace(
                    recovery_point=len(state.batches),
                    checkpoint=state.high_watermark,
                    clean_stop=image.brokers[broker_id].epoch,
                )
                ended = self._ended(spent, index, left)
                yield Taken(Step("stop of", index), self._stored(ended, session_ended(broker_id)))

    def _newest_epoch(self, world: World, index: int) -> int:
        key = records.registration_key(self._cluster.ids[index])
        return dict(self._cluster.stores[world.store].keys)[key].revision

    def _ended(self, world: World, index: int, state: BrokerState) -> World:
        """Return the world without the process of a broker. Its connections are lost: nothing
        arrives there any more, and its followers get no response. What it has sent may arrive."""
        cluster = self._cluster
        broker_id = cluster.ids[index]
        brokers = list(world.brokers)
        brokers[index] = cluster.states.number(state._replace(process=None))
        messages = []
        for number in world.messages:
            message = cluster.messages[number]
            request = message if isinstance(message, Request) else message.request
            if request.follower == broker_id:
                if isinstance(message, Request):
                    messages.append(cluster.messages.number(message._replace(is_awaited=False)))
            elif request.leader == broker_id and isinstance(message, Request):
                if request.is_awaited:
                    follower = cluster.ids.index(request.follower)
                    brokers[follower], _ = cluster.take(
                        follower, brokers[follower], "take", broker_id, None
                    )
            else:
                messages.append(number)
        writes = []
        for number in world.writes:
            pending = cluster.writes[number]
            if pending.owner == broker_id:
                number = cluster.writes.number(pending._replace(is_awaited=False, proposal=None))
            writes.append(number)
        return world._replace(
            brokers=tuple(brokers),
            messages=tuple(sorted(messages)),
            writes=tuple(sorted(set(writes))),
        )

    def _of_stopped(self, world: World, index: int, state: BrokerState) -> Iterator[Taken]:
        cluster = self._cluster
        broker_id = cluster.ids[index]
        if broker_id in cluster.image(world.store).brokers:
            ended = self._stored(world, session_ended(broker_id))
            yield Taken(Step("end of the session of", index), ended)
            # A start with the same directory ends the old session itself.
            world = ended
        state = state._replace(processes=state.processes + 1)
        write = cluster.registration(index, state, world.store, state.processes)
        world = self._stored(world, write)
        started = cluster.started(index, state._replace(clean_stop=0), world.store)
        yield Taken(Step("start of", index), _with(world, index, started))

    # --- fetches

    def _fetches(self, world: World, index: int, state: BrokerState) -> Iterator[Taken]:
        cluster, budget = self._cluster, world.budget
        assert state.process is not None
        for fetcher in state.process.fetchers:
            if fetcher.sent is not None or fetcher.followed is None:
                continue
            asked, effects = cluster.take(index, world.brokers[index], "ask", fetcher.leader_id)
            request = effects.message
            if not isinstance(request, Request):
                continue
            leader = cluster.ids.index(fetcher.leader_id)
            sent = _with(world, index, asked)
            if budget.delays:
                spent = sent._replace(
                    budget=budget._replace(delays=budget.delays - 1),
                    messages=self._sorted(world.messages, request),
                )
                yield Taken(Step("delayed fetch of", index), spent)
            if cluster.states[world.brokers[leader]].process is None:
                continue
            served, effects = cluster.take(leader, world.brokers[leader], "serve", request)
            response = effects.message
            assert isinstance(response, Response)
            after = self._after(_with(sent, leader, served), leader, effects)
            if budget.losses:
                spent = after._replace(budget=budget._replace(losses=budget.losses - 1))
                yield self._took(
                    "fetch without response of", spent, index, None, effects.wrong, response
                )
            yield self._took("fetch of", after, index, response, effects.wrong, response)

    def _took(
        self,
        name: str,
        world: World,
        index: int,
        taken: Response | None,
        wrong: tuple[str, ...],
        response: Response,
    ) -> Taken:
        leader_id = response.request.leader
        state, effects = self._cluster.take(index, world.brokers[index], "take", leader_id, taken)
        after = self._after(_with(world, index, state), index, effects)
        return Taken(Step(name, index), after, wrong + effects.wrong)

    def _messages(self, world: World) -> Iterator[Taken]:
        cluster = self._cluster
        for number in world.messages:
            message = cluster.messages[number]
            left = list(world.messages)
            left.remove(number)
            without = world._replace(messages=tuple(left))
            if isinstance(message, Response):
                follower = cluster.ids.index(message.request.follower)
                yield self._took(
                    "arrival of the response at", without, follower, message, (), message
                )
                continue
            leader = cluster.ids.index(message.leader)
            if cluster.states[world.brokers[leader]].process is None:
                continue
            served, effects = cluster.take(
                leader, world.brokers[leader], "serve", message._replace(is_awaited=True)
            )
            after = self._after(_with(without, leader, served), leader, effects)
            if message.is_awaited:
                response = effects.message
                assert isinstance(response, Response)
                after = after._replace(messages=self._sorted(after.messages, response))
            yield Taken(Step("arrival of the request at", leader), after, effects.wrong)

    def _sorted(self, numbers: tuple[int, ...], message: Request | Response) -> tuple[int, ...]:
        return tuple(sorted((*numbers, self._cluster.messages.number(message))))

    # --- writes

    def _writes(self, world: World) -> Iterator[Taken]:
        cluster, budget = self._cluster, world.budget
        for at, number in enumerate(world.writes):
            pending = cluster.writes[number]
            without = world._replace(writes=world.writes[:at] + world.writes[at + 1 :])
            store = cluster.applied(world.store, pending.write)
            arrived = without if store is None else without.stored(store)
            owner = pending.owner - 1
            if not pending.is_awaited:
                yield Taken(Step("late arrival of the write of", owner), arrived)
                continue
            outcome = IsrOutcome.REFUSED if store is None else IsrOutcome.COMMITTED
            yield self._settled("write of", arrived, owner, pending, outcome)
            if budget.losses:
                spent = budget._replace(losses=budget.losses - 1)
                lost = arrived._replace(budget=spent)
                unknown = IsrOutcome.UNKNOWN
                yield self._settled("write without response of", lost, owner, pending, unknown)
                orphan = pending._replace(is_awaited=False, proposal=None)
                writes = tuple(sorted((*without.writes, cluster.writes.number(orphan))))
                late = world._replace(budget=spent, writes=writes)
                yield self._settled("delayed write of", late, owner, pending, unknown)

    def _settled(
        self, name: str, world: World, owner: int, pending: PendingWrite, outcome: IsrOutcome
    ) -> Taken:
        assert pending.proposal is not None
        return self._step(world, name, owner, "settle", pending.proposal, outcome)

    def _controller(self, world: World) -> Iterator[Taken]:
        cluster, budget, store = self._cluster, world.budget, world.store
        if store not in self._elections:
            image, rules = cluster.image(store), cluster.rules.elections
            self._elections[store] = next(iter(elect_leaders(image, rules)), None)
            self._preferred[store] = next(iter(elect_preferred_leaders(image)), None)
        write = self._elections[store]
        if write is not None:
            yield Taken(Step("controller"), self._stored(world, write))
            if budget.delays:
                number = cluster.writes.number(PendingWrite(CONTROLLER, write))
                if number not in world.writes:
                    spent = world._replace(
                        budget=budget._replace(delays=budget.delays - 1),
                        writes=tuple(sorted((*world.writes, number))),
                    )
                    yield Taken(Step("delayed write of the controller"), spent)
        preferred = self._preferred[store]
        if preferred is not None and budget.elections:
            spent = world._replace(budget=budget._replace(elections=budget.elections - 1))
            yield Taken(Step("preferred election"), self._stored(spent, preferred))

    # --- worlds

    def _stored(self, world: World, write: Write) -> World:
        store = self._cluster.applied(world.store, write)
        return world if store is None else world.stored(store)

    def _step(self, world: World, name: str, index: int, step: str, *about: object) -> Taken:
        state, effects = self._cluster.take(index, world.brokers[index], step, *about)
        after = self._after(_with(world, index, state), index, effects)
        return Taken(Step(name, index), after, effects.wrong)

    def _after(self, world: World, index: int, effects: Effects) -> World:
        """Return the world with the effects of a broker's step outside of the broker: its writes,
        and the batches that its move of the high watermark commits."""
        if effects.writes:
            numbers = map(self._cluster.writes.number, effects.writes)
            world = world._replace(writes=tuple(sorted({*world.writes, *numbers})))
        state = self._cluster.states[world.brokers[index]]
        if state.leads and state.high_watermark > len(world.committed):
            added = state.batches[len(world.committed) : state.high_watermark]
            world = world._replace(committed=world.committed + added)
        return world


def _with(world: World, index: int, state: int) -> World:
    brokers = list(world.brokers)
    brokers[index] = state
    return world._replace(brokers=tuple(brokers))
