"""Every possible next step of a world, and its effect. A world is a model of clients, a network, a
coordinator and partitions.

The steps are: a request is served, and its response arrives or is lost; the network holds back a
request; a held request arrives; the coordinator's log commits a record; a marker arrives, and its
response arrives or is lost; a transaction times out; the coordinator restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from oncelog_protocol.errors import ErrorCode
from oncelog_server.log.errors import AppendError
from oncelog_server.transaction.commands.end_txn import decide_complete
from oncelog_server.transaction.commands.fencing import decide_overdue
from oncelog_server.transaction.marker_delivery import MarkerOutcome, marker_outcome
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.shard import decided
from tests.exploration.clients import End, Request
from tests.exploration.coordinator_model import NOW_MS, TIMEOUT_MS, WALL_MS, Waiting
from tests.exploration.serving import answer, append_parked, serve
from tests.exploration.world_model import PARTITIONS, Held, Owed, Parked, WorldModel

COMPLETING = "complete"
NONE = -1


class Step(NamedTuple):
    """A step. `which` is the index of the client, the held request or the marker. For a restart, it
    is the number of uncommitted records that stay in the log."""

    name: str
    which: int = NONE
    request: Request | None = None

    def __str__(self) -> str:
        return " ".join(str(part) for part in self if part not in (NONE, None))


def steps(world: WorldModel) -> Iterator[Step]:
    """Yield the possible steps. Their order is the same in every run."""
    may_lose = world.budget.losses > 0
    for index, client in enumerate(world.clients):
        waits = any(waiter.client == index for waiter in world.coordinator.waiting)
        for request in client.choices(index, world.budget.transactions):
            if not waits or may_lose:
                yield Step("call", index, request)
            if may_lose and not waits:
                yield Step("call and lose the answer of", index, request)
            if world.budget.holds and not waits:
                yield Step("hold", index, request)
    for index in range(len(world.held)):
        yield Step("release", index)
    if world.coordinator.waiting:
        yield Step("commit")
    for index in range(len(world.owed)):
        yield Step("marker", index)
        if may_lose:
            yield Step("marker without answer", index)
    if world.budget.timeouts and world.coordinator.shard.ongoing:
        yield Step("time out")
    if world.budget.restarts:
        yield Step("restart, keep", 0)
        if world.coordinator.waiting:
            yield Step("restart, keep", len(world.coordinator.waiting))


def take(world: WorldModel, step: Step) -> None:
    """Apply the step to `world`."""
    if step.name == "commit":
        commit(world)
    elif step.name == "marker":
        deliver_marker(world, step.which, is_answered=True)
    elif step.name == "marker without answer":
        lose(world)
        deliver_marker(world, step.which, is_answered=False)
    elif step.name == "time out":
        world.budget = world.budget._replace(timeouts=world.budget.timeouts - 1)
        time_out(world)
    elif step.name == "restart, keep":
        world.budget = world.budget._replace(restarts=world.budget.restarts - 1)
        restart(world, step.which)
    elif step.name == "release":
        held = world.held[step.which]
        world.held = world.held[: step.which] + world.held[step.which + 1 :]
        serve(world, held.client, held.request, listens=False)
    else:
        assert step.request is not None
        ask(world, step.name, step.which, step.request)


def lose(world: WorldModel) -> None:
    world.budget = world.budget._replace(losses=world.budget.losses - 1)


def ask(world: WorldModel, how: str, index: int, request: Request) -> None:
    clients = list(world.clients)
    clients[index] = clients[index]._replace(outstanding=request)
    world.clients = tuple(clients)
    if isinstance(request, End):
        world.asked |= {(request.ghost, request.committed)}
    coordinator = world.coordinator
    if any(waiter.client == index for waiter in coordinator.waiting):
        lose(world)  # the client's request timed out, and it repeats the request
        coordinator.waiting = tuple(
            waiter._replace(client=None) if waiter.client == index else waiter
            for waiter in coordinator.waiting
        )
    if how == "hold":
        world.budget = world.budget._replace(holds=world.budget.holds - 1)
        world.held += (Held(index, request),)
        return
    if how != "call":
        lose(world)
    serve(world, index, request, listens=how == "call")


def commit(world: WorldModel) -> None:
    """Commit the next record of the coordinator's log. Continue the request that waited for this
    record."""
    waiting = world.coordinator.commit_next()
    metadata = world.coordinator.metadata(waiting.transactional_id)
    assert metadata is not None
    response = waiting.response
    if response is None:
        response = decided(metadata)
    if metadata.is_prepared:
        begin_markers(world, waiting.transactional_id)
    if isinstance(waiting.request, Parked):
        append_parked(world, waiting, response)
    elif waiting.request != COMPLETING:
        answer(world, waiting.client, waiting.request, response)


def begin_markers(world: WorldModel, transactional_id: str) -> None:
    work = world.coordinator.shard.marker_work(transactional_id)
    assert work is not None
    world.owed += tuple(Owed(work, PARTITIONS.index(name)) for name in work.partitions)
    if not work.partitions:
        complete(world, transactional_id)


def complete(world: WorldModel, transactional_id: str) -> None:
    coordinator = world.coordinator
    work = coordinator.shard.marker_work(transactional_id)
    assert work is not None
    decision = decide_complete(coordinator.shard, work, attempt=0, wall_ms=WALL_MS)
    if decision is not None:
        coordinator.append(decision, Waiting(transactional_id, None, COMPLETING, None))


def deliver_marker(world: WorldModel, index: int, *, is_answered: bool) -> None:
    owed = world.owed[index]
    world.owed = world.owed[:index] + world.owed[index + 1 :]
    work, partition = owed.work, world.changing(owed.partition)
    code = ErrorCode.NONE
    try:
        partition.append_marker(
            (work.producer_id, work.producer_epoch),
            work.committed,
            work.coordinator_epoch,
            work.transaction_version,
        )
    except AppendError as refused:
        code = ErrorCode(refused.code)
    coordinator = world.coordinator
    if work.coordinator_epoch != coordinator.epoch:
        return  # the coordinator that sent the marker has ended
    if not is_answered:
        world.again += (owed,)
    elif marker_outcome(code) is MarkerOutcome.WRITTEN:
        coordinator.shard.marker_written(work, PARTITIONS[owed.partition])
    else:
        world.violations.append(f"{code.name} for a marker of the live coordinator")
    if any(other.work == work for other in world.owed):
        return
    # The attempt has ended. The coordinator now sends again each marker that got no response.
    retried = tuple(other for other in world.again if other.work == work)
    world.again = tuple(other for other in world.again if other.work != work)
    world.owed += retried
    if not retried:
        complete(world, work.transactional_id)


def time_out(world: WorldModel) -> None:
    coordinator = world.coordinator
    shard = coordinator.shard
    for transactional_id in shard.overdue(NOW_MS + 2 * TIMEOUT_MS, at_most=10):
        decision = decide_overdue(
            shard.ongoing[transactional_id],
            wall_ms=WALL_MS,
            new_producer_id=world.new_producer_id,
        )
        fenced = TransactionResult(ErrorCode.PRODUCER_FENCED)
        coordinator.append(decision, Waiting(transactional_id, None, "timeout", fenced))


def restart(world: WorldModel, kept: int) -> None:
    """Restart the coordinator without its memory. `kept`: the number of uncommitted records that
    stay in its log. Markers in flight stay in flight."""
    for waiting in world.coordinator.waiting:
        if isinstance(waiting.request, Parked):
            unavailable = TransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            append_parked(world, waiting, unavailable)
    world.again = ()
    for work in world.coordinator.restart(kept):
        begin_markers(world, work.transactional_id)
