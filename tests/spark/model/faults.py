"""The faults of the model: a driver crashes, a transaction times out, nothing happens for weeks, a
request comes late, a checkpoint is lost."""

from __future__ import annotations

from collections.abc import Iterator

from .broker import execute, rest, time_out
from .world import Checkpoint, Driver, Phase, Size, World

_OVER = (Phase.FAILED, Phase.FINISHED)


# An event is a label, formatted only on request, and the world after it.
Event = tuple[tuple[object, ...], World]


def successor(world: World, size: Size, *, heir_of: Driver | None = None) -> World:
    """Return the world with a new driver, which starts from the checkpoint in the session of
    `heir_of` or in a new session."""
    checkpoint, sessions = world.checkpoint, world.sessions
    number = 1 + max((driver.number for driver in world.drivers), default=-1)
    batch_id = checkpoint.committed + 1
    if heir_of is None:
        session = len(sessions)
        sessions = (*sessions, (None,) * size.processes)
    else:
        session = heir_of.session
    phase = Phase.FINISHED if batch_id == size.batches else Phase.BEGIN
    planned = max(checkpoint.planned, min(batch_id, size.batches - 1))
    driver = Driver(number, checkpoint.query_id, batch_id, phase, session=session)
    return world._replace(
        checkpoint=checkpoint._replace(planned=planned),
        drivers=(*world.drivers, driver),
        sessions=sessions,
    )


def faults(world: World, size: Size) -> Iterator[Event]:
    budget = world.budget
    for driver in world.drivers:
        if driver.is_current:
            yield from _ends(world, size, driver)
    if budget.timeouts:
        spent = world._replace(budget=budget._replace(timeouts=budget.timeouts - 1))
        for name, transaction in world.broker.transactions:
            if transaction.is_open and not transaction.is_two_phase:
                yield (name, "times out"), spent._replace(broker=time_out(world.broker, name))
    for index, request in enumerate(world.held):
        broker, reply = execute(world.broker, request)
        left = world.held[:index] + world.held[index + 1 :]
        yield ("comes late:", request, "->", reply), world._replace(broker=broker, held=left)


def _ends(world: World, size: Size, driver: Driver) -> Iterator[Event]:
    budget = world.budget
    if driver.phase is Phase.FAILED and budget.restarts:
        spent = world._replace(budget=budget._replace(restarts=budget.restarts - 1))
        yield from _follows(spent, size, driver, None, (driver, "is restarted"))
    elif driver.phase not in _OVER and budget.crashes:
        spent = world._replace(budget=budget._replace(crashes=budget.crashes - 1))
        # A killed driver needs no event of its own: it is a driver that is cut off and never acts
        # again.
        zombie = driver._replace(is_current=False)
        yield from _follows(spent, size, driver, zombie, (driver, driver.phase.value, "is cut off"))
    if driver.phase is Phase.BEGIN and budget.rests and not any(world.sessions[driver.session]):
        spent = world._replace(budget=budget._replace(rests=budget.rests - 1))
        yield ("nothing for weeks",), spent._replace(broker=rest(world.broker))
    if driver.phase is Phase.FINISHED and budget.checkpoints:
        number = int(world.checkpoint.query_id[1:]) + 1
        spent = world._replace(
            budget=budget._replace(checkpoints=budget.checkpoints - 1),
            checkpoint=Checkpoint(f"q{number}"),
        )
        yield from _follows(spent, size, driver, None, (driver, "loses its checkpoint"))


def _follows(
    world: World,
    size: Size,
    driver: Driver,
    zombie: Driver | None,
    what: tuple[object, ...],
) -> Iterator[Event]:
    """Yield the events in which a new driver follows `driver`. Without a `zombie` nothing of
    `driver` remains, so its number is reused."""
    after = world.without(driver) if zombie is None else world.having(driver, zombie)
    yield what, successor(after, size)
    if world.budget.heirs:
        spent = world.budget._replace(heirs=world.budget.heirs - 1)
        heir = successor(after._replace(budget=spent), size, heir_of=driver)
        yield (*what, "in its session"), heir
