"""The model's broker: it handles a request with the server's own decision functions
(`decide_end_txn` and others), and gives the response to the client."""

from __future__ import annotations

from typing import Any

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.shard import Decision
from oncelog_server.log.errors import AppendError
from oncelog_server.transaction.commands.add_partitions import AddPartitions, decide_add_partitions
from oncelog_server.transaction.commands.end_txn import EndTxn, decide_end_txn
from oncelog_server.transaction.commands.init_producer_id import (
    InitProducerId,
    decide_init_producer_id,
)
from oncelog_server.transaction.results import SUCCESS, TransactionResult
from tests.exploration.clients import Add, ClientModel, End, Init, Produce
from tests.exploration.coordinator_model import NOW_MS, TIMEOUT_MS, WALL_MS, Waiting
from tests.exploration.world_model import PARTITIONS, Answered, Parked, WorldModel

# The client repeats its request after these errors. It stops for good after any other error.
RETRIED = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)


def serve(world: WorldModel, index: int, request: object, *, listens: bool) -> None:
    """Handle a request. `listens`: the client gets the response."""
    client = world.clients[index]
    caller = index if listens else None
    if isinstance(request, Produce):
        produce(world, client, caller, request)
        return
    decision = decide(world, client, request)
    if not decision.records:
        assert isinstance(decision.response, TransactionResult)
        answer(world, caller, request, decision.response)
        return
    # If the decision parks the request, a later decision gives the response.
    response = decision.response if isinstance(decision.response, TransactionResult) else None
    waiting = Waiting(client.transactional_id, caller, request, response)
    world.coordinator.append(decision, waiting)


def decide(world: WorldModel, client: ClientModel, request: object) -> Decision[TransactionResult]:
    shard, name = world.coordinator.shard, client.transactional_id
    if isinstance(request, Init):
        command = InitProducerId(name, TIMEOUT_MS)
        return decide_init_producer_id(
            shard, command, wall_ms=WALL_MS, new_producer_id=world.new_producer_id
        )
    if isinstance(request, Add):
        return ask_to_add(world, client, request.producer, request.partition)
    assert isinstance(request, End)
    end = EndTxn(name, *request.producer, request.committed, client.version == 2)
    return decide_end_txn(shard, end, wall_ms=WALL_MS, new_producer_id=world.new_producer_id)


def ask_to_add(
    world: WorldModel,
    client: ClientModel,
    producer: tuple[int, int],
    partition: int,
    *,
    verify_only: bool = False,
) -> Decision[TransactionResult]:
    command = AddPartitions(
        client.transactional_id,
        *producer,
        frozenset([PARTITIONS[partition]]),
        2 if client.version == 2 else 0,
        verify_only=verify_only,
    )
    return decide_add_partitions(world.coordinator.shard, command, now_ms=NOW_MS, wall_ms=WALL_MS)


def produce(world: WorldModel, client: ClientModel, caller: int | None, request: Produce) -> None:
    """Handle a Produce. The first record of a transaction in a partition needs the coordinator's
    verification (KIP-890)."""
    partition = world.partitions[request.partition]
    if partition.has_open_transaction(request.producer):
        append(world, caller, request, SUCCESS)
        return
    world.questions += 1
    number = world.questions
    guards = world.changing(request.partition).guards
    world.guards = {**world.guards, number: guards.begin(request.producer[0])}
    decision = ask_to_add(
        world, client, request.producer, request.partition, verify_only=client.version == 1
    )
    parked = Waiting(client.transactional_id, caller, Parked(request, number), SUCCESS)
    if decision.records:
        world.coordinator.append(decision, parked)
    else:
        assert isinstance(decision.response, TransactionResult)
        append_parked(world, parked, decision.response)


def append_parked(world: WorldModel, waiting: Waiting, response: TransactionResult) -> None:
    """Append a parked record after the coordinator's response. If the transaction has ended since
    the record was parked, its verification guard no longer holds, and the record is refused."""
    parked = waiting.request
    assert isinstance(parked, Parked)
    request = parked.request
    guards = world.changing(request.partition).guards
    guard = world.guards[parked.guard]
    world.guards = {n: guard for n, guard in world.guards.items() if n != parked.guard}
    if response.code is ErrorCode.NONE and not guards.holds(request.producer[0], guard):
        response = TransactionResult(ErrorCode.TRANSACTION_ABORTABLE)
    append(world, waiting.client, request, response)
    guards.end(request.producer[0], guard)


def append(
    world: WorldModel, caller: int | None, request: Produce, response: TransactionResult
) -> None:
    if response.code is ErrorCode.NONE:
        try:
            world.changing(request.partition).append(
                request.producer, request.sequence, request.ghost
            )
        except AppendError as refused:
            response = TransactionResult(ErrorCode(refused.code))
    answer(world, caller, request, response)


def answer(
    world: WorldModel, caller: int | None, request: Any, response: TransactionResult
) -> None:
    """Give a response to its client, unless the client has stopped listening."""
    if caller is None:
        return
    clients = list(world.clients)
    client = clients[caller]
    if response.code is ErrorCode.NONE:
        producer = (response.producer_id, response.producer_epoch)
        clients[caller] = client.answered(request, producer)
        if isinstance(request, End):
            world.answered += (Answered(request, caller),)
        if isinstance(request, Init) or (isinstance(request, End) and client.version == 2):
            hand(world, producer, caller)
    elif response.code not in RETRIED:
        clients[caller] = client._replace(is_fenced=True, outstanding=None)
    world.clients = tuple(clients)


def hand(world: WorldModel, producer: tuple[int, int], caller: int) -> None:
    """Record that a client gets this producer id and epoch. If another client has got them before,
    add a violation of I10."""
    owner = dict(world.handed).setdefault(producer, caller)
    if owner != caller:
        world.violations.append(f"I10: {producer} went to clients {owner} and {caller}")
    if (producer, caller) not in world.handed:
        world.handed += ((producer, caller),)
