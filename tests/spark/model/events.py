"""Every possible next event in a world, and the world after the event. A world is a state of the
model of Spark and a broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.ids import ProcessIds
from oncelog_client.spark.sink.protocol.messages import TaskMessage
from oncelog_client.spark.sink.protocol.steps import Planned, Raised, Returned

from .broker import execute, holder
from .faults import Event, faults
from .requests import EndTxn, InitProducerId, Produce, Refused, Reply, Row, Unanswered
from .sinks import Asks, Sink, Turn, Written
from .world import Call, Driver, Phase, Size, Task, World


def proceed(sink: Sink, call: Call, reply: Reply) -> Turn | Call:
    """Return the call with one more response. After the last response, return the Turn that follows
    from all responses."""
    replies = (*call.replies, reply)
    asks = call.asks
    stops = isinstance(reply, Unanswered) or (isinstance(reply, Refused) and not asks.is_pipelined)
    if len(replies) < len(asks.requests) and not stops:
        return Call(asks, replies)
    return sink.resume(asks, replies)


@dataclass(frozen=True)
class Events:
    """The events of worlds of this size with this sink. `_turns`: a cache of the results of
    `proceed`, because many worlds have the same call."""

    sink: Sink
    size: Size
    _turns: dict[tuple[Call, Reply], Turn | Call] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __call__(self, world: World) -> Iterator[Event]:
        yield from faults(world, self.size)
        for driver in world.drivers:
            if driver.call is not None:
                yield from self._ask(world, driver, driver.call)
            else:
                yield from self._move(world, driver)
        for task in world.tasks:
            if task.call is not None:
                yield from self._ask(world, task, task.call)

    # --- requests

    def _ask(self, world: World, machine: Driver | Task, call: Call) -> Iterator[Event]:
        request, budget = call.request, world.budget
        broker, reply = execute(world.broker, request)
        after = world._replace(broker=broker)
        label = (machine, ":", request, "->", reply)
        yield label, self._hears(after, machine, call, reply)
        if budget.losses:
            spent = budget._replace(losses=budget.losses - 1)
            lost = self._hears(after._replace(budget=spent), machine, call, Unanswered())
            yield (*label, "is lost"), lost
            unsent = self._hears(world._replace(budget=spent), machine, call, Unanswered())
            yield (machine, ":", request, "is lost"), unsent
        if budget.copies:
            spent = budget._replace(copies=budget.copies - 1)
            twice = after._replace(budget=spent, held=(*world.held, request))
            yield (*label, "and is delivered again"), self._hears(twice, machine, call, reply)

    def _hears(self, world: World, machine: Driver | Task, call: Call, reply: Reply) -> World:
        key = (call, reply)
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = proceed(self.sink, call, reply)
        return _tidied(self._turned(world, machine, turn))

    def _turned(self, world: World, machine: Driver | Task, turn: Turn | Call) -> World:
        if isinstance(turn, Asks):
            turn = Call(turn)
        if isinstance(machine, Task):
            return _task_turned(world, machine, turn)
        return self._driver_turned(world, machine, turn)

    # --- drivers

    def _driver_turned(self, world: World, driver: Driver, turn: Turn | Call) -> World:
        match turn:
            case Call():
                return world.having(driver, driver._replace(call=turn))
            case Planned(plan, generation):
                world = world.remembering(driver, generation or driver.begun)
                after = driver._replace(call=None, phase=Phase.RUN, plan=plan, begun=None)
                world = world.having(driver, after)
                for partition in range(self.size.partitions):
                    world = self._attempt(world, after, partition, 0)
                return world
            case Returned() if driver.phase is Phase.COMMIT:
                after = driver._replace(call=None, phase=Phase.LOG, plan=None, messages=())
                return _tidied(world.having(driver, after))
            case Raised() if driver.phase is Phase.COMMIT:
                return self._abort(world, driver, driver.messages)
            case Returned() | Raised():
                return self._fail(world, driver)
        raise AssertionError(turn)

    def _attempt(self, world: World, driver: Driver, partition: int, number: int) -> World:
        """Start an attempt, in the first idle Python process, or in a new one if all are busy."""
        assert driver.plan is not None
        busy = {task.process for task in world.tasks if task.call is not None}
        processes = world.processes
        process = next(
            (number for number in range(len(processes)) if number not in busy), len(processes)
        )
        if process == len(processes):
            processes = (*processes, ProcessIds(f"p{process}"))
        taken, transactional_id = processes[process].take(driver.plan)
        task = Task(driver.number, driver.batch_id, partition, number, process)
        query_id = driver.query_id
        rows: tuple[Row, ...] = (Row(query_id, driver.batch_id, partition),)
        if (driver.batch_id, partition) in self.size.empty:
            rows = ()
        attempt = Attempt(partition, query_id, driver.batch_id)
        turn = self.sink.write(driver.plan, attempt, transactional_id, rows)
        if isinstance(turn, Asks):
            processes = (*processes[:process], taken, *processes[process + 1 :])
        world = world._replace(tasks=(*world.tasks, task), processes=processes)
        return self._turned(world, task, turn)

    def _abort(
        self, world: World, driver: Driver, messages: tuple[TaskMessage | None, ...]
    ) -> World:
        aborting = driver._replace(call=None, phase=Phase.ABORT, plan=None, messages=())
        world = _tidied(world.having(driver, aborting))
        return self._turned(world, aborting, self.sink.abort(messages, driver.batch_id))

    def _fail(self, world: World, driver: Driver) -> World:
        if not driver.is_current:
            return _tidied(world.without(driver))
        return _tidied(world.having(driver, _next(driver, driver.batch_id, Phase.FAILED)))

    def _move(self, world: World, driver: Driver) -> Iterator[Event]:
        match driver.phase:
            case Phase.BEGIN:
                yield from self._plan(world, driver)
            case Phase.RUN:
                yield from self._run(world, driver)
            case Phase.LOG:
                yield self._log(world, driver)

    def _plan(self, world: World, driver: Driver) -> Iterator[Event]:
        """Yield the events of a plan in the process of the last plan, and in other processes.
        Another process is used if the last one is busy, or if `switches` of the budget allow it.
        The first request is sent in the same event, because the request does not depend on the
        world."""
        session = world.sessions[driver.session]
        busy = {
            other.process
            for other in world.drivers
            if other.session == driver.session and other.phase is Phase.PLAN
        }
        idle = [number for number in range(len(session)) if number not in busy]
        if driver.process not in idle:
            driver, before = driver._replace(process=idle[0] if idle else len(session)), driver
            world = world.having(before, driver)
            if not idle:
                sessions = list(world.sessions)
                sessions[driver.session] = (*session, None)
                world = world._replace(sessions=tuple(sessions))
        budget = world.budget
        for process in idle or [driver.process]:
            if process != driver.process and not budget.switches:
                continue
            switches = budget.switches - (process != driver.process)
            begun = world.sessions[driver.session][process]
            planning = driver._replace(phase=Phase.PLAN, process=process, begun=begun)
            after = world.having(driver, planning).remembering(planning, None)
            after = after._replace(budget=budget._replace(switches=switches))
            turn = self.sink.plan(driver.query_id, begun)
            yield from self._at_once((), after, planning, turn)

    def _at_once(
        self, label: tuple[object, ...], world: World, driver: Driver, turn: Turn
    ) -> Iterator[Event]:
        """Yield the events of the first request of a call from Spark, or the event of the call's
        result if it sends no request."""
        if not isinstance(turn, Asks):
            yield (driver, *label), self._turned(world, driver, turn)
            return
        for what, after in self._ask(world, driver, Call(turn)):
            yield (*what[:1], *label, *what[1:]), after

    def _run(self, world: World, driver: Driver) -> Iterator[Event]:
        mine = [task for task in world.tasks if task[:2] == (driver.number, driver.batch_id)]
        partitions = range(self.size.partitions)
        written = [
            [place for place in mine if place.partition == partition and place.call is None]
            for partition in partitions
        ]
        for winners in product(*written):
            messages = tuple(winner.message for winner in winners)
            committing = driver._replace(phase=Phase.COMMIT, messages=messages)
            turn = self.sink.commit(messages, driver.batch_id)
            committed = world.having(driver, committing)
            yield from self._at_once(("commits", *winners), committed, committing, turn)
        budget = world.budget
        if budget.attempts:
            spent = world._replace(budget=budget._replace(attempts=budget.attempts - 1))
            for partition in partitions:
                numbers = (place.attempt for place in mine if place.partition == partition)
                after = self._attempt(spent, driver, partition, 1 + max(numbers, default=0))
                yield (driver, "attempts", partition, "again"), after
        elif any(
            not any(place.partition == partition for place in mine) for partition in partitions
        ):
            left = tuple(task.message for task in mine if task.call is None)
            yield (driver, "fails: tasks"), self._abort(world, driver, (*left, None))

    def _log(self, world: World, driver: Driver) -> Event:
        """Write the batch to Spark's commit log, and plan the next batch. Spark creates each file
        atomically, so if two drivers run the same query, one of them fails at one of the two
        files."""
        label = (driver, "is in Spark's commit log")
        checkpoint = world.checkpoint
        if checkpoint.committed >= driver.batch_id:
            return (*label, "already"), self._fail(world, driver)
        checkpoint = checkpoint._replace(committed=driver.batch_id)
        world = world._replace(checkpoint=checkpoint)
        following = driver.batch_id + 1
        if following == self.size.batches:
            if not driver.is_current:
                return label, world.without(driver)
            return label, world.having(driver, _next(driver, following, Phase.FINISHED))
        if checkpoint.planned >= following:
            return (*label, "and another driver planned the next batch"), self._fail(world, driver)
        world = world._replace(checkpoint=checkpoint._replace(planned=following))
        return label, world.having(driver, _next(driver, following, Phase.BEGIN))


def _next(driver: Driver, batch_id: int, phase: Phase) -> Driver:
    return Driver(
        driver.number,
        driver.query_id,
        batch_id,
        phase,
        driver.is_current,
        driver.session,
        driver.process,
    )


def _tidied(world: World) -> World:
    """Return the world without tasks that have no further effect: their driver does not wait for
    them, and they have written or are fenced for good."""
    running = {
        (driver.number, driver.batch_id) for driver in world.drivers if driver.phase is Phase.RUN
    }
    tasks = tuple(
        task
        for task in world.tasks
        if task[:2] in running or (task.call is not None and not _is_lost(world, task.call))
    )
    return world if tasks == world.tasks else world._replace(tasks=tasks)


def _is_lost(world: World, call: Call) -> bool:
    if world.budget.rests:
        # The query may still stand still (`rests`) until the broker has forgotten its fenced
        # producers.
        return False
    match call.request:
        case Produce(producer) | EndTxn(producer):
            return isinstance(holder(world.broker, producer), Refused)
        case InitProducerId(_, generation):
            return generation is not None and generation < world.broker.newest_generation
    return False


def _task_turned(world: World, task: Task, turn: Turn | Call) -> World:
    after: tuple[Task, ...] = ()
    match turn:
        case Call():
            after = (task._replace(call=turn),)
        case Written(message) if message is not None:
            after = (task._replace(call=None, message=message),)
    kept = [other for other in world.tasks if other is not task]
    return _tidied(world._replace(tasks=tuple(sorted((*kept, *after), key=_which))))


def _which(task: Task) -> tuple[int, ...]:
    return task[:5]
