"""The crash matrix of one broker: points C0 to C14 x commit and abort x transaction versions 1 and
2 x kill, power loss, pause x the client's behavior afterwards.

In every cell, all partitions and the client have one outcome, no promised record is lost, all
invariants hold, LSO = HW, and a new transaction of the same id succeeds.
"""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.states import State
from tests.server.transaction.world import DATA, OFFSETS, World, value_of
from tests.simulation.checking.internal_records import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from tests.simulation.checking.internal_records import ONGOING as ONGOING_STATE
from tests.simulation.checking.survival import check_survival
from tests.simulation.crash_cell import RETRIED, TIMEOUT_MS, Cell, Client, Fault
from tests.simulation.crash_points import COMPLETED, ONGOING, POINTS, PREPARED, Point

FENCES = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
NAMES = {
    ONGOING_STATE: ONGOING,
    PREPARE_COMMIT: PREPARED,
    PREPARE_ABORT: PREPARED,
    COMPLETE_COMMIT: COMPLETED,
    COMPLETE_ABORT: COMPLETED,
}
POWER_LOSSES = 4


@pytest.mark.parametrize("client", Client, ids=lambda client: f"client-{client.value}")
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
@pytest.mark.parametrize("version", [1, 2], ids=["V1", "V2"])
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_c0_to_c14_a_transaction_survives_every_cell_of_the_crash_matrix(
    point: Point, committed: bool, version: int, fault: Fault, client: Client
) -> None:
    is_drawn = fault in (Fault.POWER_LOSS, Fault.POWER_LOSS_FLUSHING)
    for seed in range(POWER_LOSSES if is_drawn else 1):
        play(Cell(point, committed, version, fault, client, seed))


def play(cell: Cell) -> None:
    cell.run()
    assert cell.hit, "the point was never reached"
    check_state_found(cell)
    if not cell.fault.is_promised:
        abort_hanging(cell)
    elif cell.client is Client.DIES:
        cell.rest(TIMEOUT_MS + 2_000)
        check_nothing_is_held_back(cell.world)
    take_over(cell)
    check_outcome(cell)
    check_zombie(cell)
    check_invariants(cell)


def check_state_found(cell: Cell) -> None:
    """Check the state of the transaction that the next process has found on the disk. It must be
    one of the point's `survivors`, the possible states after the fault."""
    if cell.fault.is_promised and not cell.fault.pause_ms:
        (last,) = cell.found
        assert last.state is not None
        assert NAMES[last.state] in cell.point.survivors
        if NAMES[last.state] is not ONGOING:
            assert last.state in wanted_states(cell)


def wanted_states(cell: Cell) -> tuple[int, int]:
    if cell.committed:
        return PREPARE_COMMIT, COMPLETE_COMMIT
    return PREPARE_ABORT, COMPLETE_ABORT


def check_nothing_is_held_back(world: World) -> None:
    for partition in world.partitions.values():
        end = partition.log_end_offset
        assert partition.last_stable_offset == partition.high_watermark == end
    assert world.offset(require_stable=True)[0] is ErrorCode.NONE


def abort_hanging(cell: Cell) -> None:
    """Abort hanging transactions, as an operator does with `kafka-transactions abort` (KIP-664). If
    the end of the coordinator's log is lost, the coordinator may not know a transaction that has
    records."""
    cell.rest(TIMEOUT_MS + 2_000)
    for partition in cell.world.partitions.values():
        for transaction in partition._log.producers.ongoing_transactions():
            entry = partition._log.producers.entry(transaction.producer_id)
            assert entry is not None
            partition.append_marker(
                entry.producer_id,
                entry.producer_epoch,
                committed=False,
                coordinator_epoch=max(entry.coordinator_epoch, 0),
                transaction_version=0,
                now_ms=cell.world.wall(),
            )
            if partition.topic_partition == OFFSETS:
                cell.world.groups.offsets_marker(0)(entry.producer_id, entry.producer_epoch, False)
    cell.world.settle()


def take_over(cell: Cell) -> None:
    """Check that a newer instance of the id gets a working producer."""
    world = cell.world
    for _ in range(40):
        response = world.init()
        cell.rest(500)
        result = value_of(response)
        if result.code not in RETRIED:
            break
    assert result.code is ErrorCode.NONE
    producer = (result.producer_id, result.producer_epoch)
    cell.promises.hands(*producer, "second")
    for partition in DATA:
        append, _ = world.produce(producer, partition, 0, b"second")
        world.settle()
        assert append.code is ErrorCode.NONE
    added = world.add(producer, OFFSETS)
    world.settle()
    assert value_of(added).code is ErrorCode.NONE
    response = world.end(producer, True)
    world.settle()
    assert value_of(response).code is ErrorCode.NONE
    check_nothing_is_held_back(world)


def check_outcome(cell: Cell) -> None:
    """Check that all partitions, the offsets and the client's response have the same outcome."""
    if not cell.fault.is_promised:
        return
    values = {partition: cell.world.read(partition) for partition in DATA}
    visible = [partition for partition, found in values.items() if b"first" in found]
    outcome = bool(visible)
    for partition, found in values.items():
        assert found == [b"first"] * outcome + [b"second"], (partition, found)
    assert cell.world.offset(require_stable=True) == (ErrorCode.NONE, 5 if outcome else -1)
    if cell.result is ErrorCode.NONE:
        assert outcome == cell.committed
    elif cell.result is not None:
        assert cell.result in FENCES
        assert not outcome
    if cell.client is Client.RETRIES and cell.fault is not Fault.LONG_PAUSE:
        assert cell.result is ErrorCode.NONE
    if ONGOING not in cell.point.survivors:
        assert outcome == cell.committed
    elif cell.client is not Client.RETRIES and PREPARED not in cell.point.survivors:
        # At C5 the transaction is not decided yet. A paused process decides it after the pause.
        assert not outcome or cell.fault.pause_ms
    live = cell.world.transactions.owner("t")[1].get("t")
    assert live is not None
    assert live.metadata.state is State.COMPLETE_COMMIT


def check_zombie(cell: Cell) -> None:
    """Check that every request of the first instance is refused and has no effect (Z2 to Z5)."""
    world = cell.world
    before = {path: bytes(node.data) for path, node in world.files.nodes.items()}
    responses: list[Any] = []
    for partition in DATA:
        for adds_partitions in (False, True):
            append, _ = world.produce(
                cell.producer, partition, 1, b"late", adds_partitions=adds_partitions
            )
            responses.append(append)
        responses.append(world.add(cell.producer, partition))
    for committed in (True, False):
        responses += [
            world.end(cell.producer, committed, bumps_epoch=bumps) for bumps in (False, True)
        ]
    world.settle()
    codes = {ErrorCode(value_of(response).code) for response in responses}
    assert codes <= {*FENCES, ErrorCode.INVALID_PRODUCER_ID_MAPPING}, codes
    assert before == {path: bytes(node.data) for path, node in world.files.nodes.items()}


def check_invariants(cell: Cell) -> None:
    logs = cell.logs()
    found = cell.violations + cell.look(settled=True)
    found += cell.promises.check(logs)
    found += check_survival(cell.before, logs)
    assert not found, "\n".join(map(str, found))
