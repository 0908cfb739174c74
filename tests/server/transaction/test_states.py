"""Every command in every state, as KIP-98, KIP-360 and KIP-890 define it."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.states import (
    ADD_PARTITIONS,
    COMPLETED,
    END_CURRENT_EPOCH,
    END_PREVIOUS_EPOCH,
    END_SAME_EPOCH,
    INIT_PRODUCER_ID,
    PREPARED,
    State,
)
from tests.server.transaction.driver import P0, P1, Driver

# The id has producer id 77 and epoch 5, and its own producer bumped the epoch from 4 to 5.
COMMANDS = [
    "init a new instance",
    "init (77, 5) itself",
    "init (77, 4) again",
    "init (77, 3) a zombie",
    "add one more",
    "add a zombie",
    "V1 commit",
    "V1 abort",
    "V1 commit of (77, 4)",
    "V2 commit",
    "V2 abort",
    "V2 commit of (77, 4)",
    "V2 abort of (77, 4)",
    "V2 commit of (77, 6)",
]
EMPTY, ONGOING = State.EMPTY, State.ONGOING
PC, PA = State.PREPARE_COMMIT, State.PREPARE_ABORT
CC, CA = State.COMPLETE_COMMIT, State.COMPLETE_ABORT
DEAD, FENCE = State.DEAD, State.PREPARE_EPOCH_FENCE
READY = (0, EMPTY)
# By command, for each state: the error code, and the next state if it differs.
TABLE: dict[str, list[int | tuple[int, State]]] = {
    #                         Empty       Ongoing     PrepC  PrepA  CompC       CompA    Dead Fence
    "init a new instance":   [0,          (51, PA),   51,    51,    READY,   READY,   READY, 48],
    "init (77, 5) itself":   [0,          (51, PA),   51,    51,    READY,   READY,   READY, 48],
    "init (77, 4) again":    [0,          90,         51,    51,    READY,   READY,   READY, 48],
    "init (77, 3) a zombie": [90,         90,         51,    51,    90,         90,         90, 90],
    "add one more":          [(0, ONGOING), 0,       51,    51, (0, ONGOING), (0, ONGOING), 48, 48],
    "add a zombie":          [90,         90,         51,    51,    90,         90,         90, 90],
    "V1 commit":             [48,         (0, PC),    51,    51,    0,          48,         48, 48],
    "V1 abort":              [48,         (0, PA),    51,    51,    48,         0,          48, 48],
    "V1 commit of (77, 4)":  [90,         90,         90,    90,    90,         90,         90, 90],
    "V2 commit":             [48,         (0, PC),    51,    51,    48,         48,         48, 48],
    "V2 abort":              [(0, PA),    (0, PA),    51,    51,    (0, PA),    (0, PA),    48, 48],
    "V2 commit of (77, 4)":  [90,         90,         51,    51,    0,          90,         48, 48],
    "V2 abort of (77, 4)":   [90,         90,         51,    51,    48,         0,          48, 48],
    "V2 commit of (77, 6)":  [90,         90,         90,    90,    90,         90,         90, 90],
}  # fmt: skip
STATES = [EMPTY, ONGOING, PC, PA, CC, CA, DEAD, FENCE]


def given(driver: Driver, command: str) -> ErrorCode | None:
    """Return the error code, or None while EndTxn waits for the markers."""
    asked = {
        "init a new instance": lambda: driver.init(),
        "init (77, 5) itself": lambda: driver.init(77, 5),
        "init (77, 4) again": lambda: driver.init(77, 4),
        "init (77, 3) a zombie": lambda: driver.init(77, 3),
        "add one more": lambda: driver.add(77, 5, P1),
        "add a zombie": lambda: driver.add(77, 4, P0),
        "V1 commit": lambda: driver.end(77, 5, True, bumps_epoch=False),
        "V1 abort": lambda: driver.end(77, 5, False, bumps_epoch=False),
        "V1 commit of (77, 4)": lambda: driver.end(77, 4, True, bumps_epoch=False),
        "V2 commit": lambda: driver.end(77, 5, True),
        "V2 abort": lambda: driver.end(77, 5, False),
        "V2 commit of (77, 4)": lambda: driver.end(77, 4, True),
        "V2 abort of (77, 4)": lambda: driver.end(77, 4, False),
        "V2 commit of (77, 6)": lambda: driver.end(77, 6, True),
    }[command]()
    return asked.value.code if asked.done else None


CELLS = [
    pytest.param(
        command, state, *(cell if isinstance(cell, tuple) else (cell, state)),
        id=f"{state.name}, {command}",
    )
    for command, row in TABLE.items()
    for state, cell in zip(STATES, row, strict=True)
]  # fmt: skip


@pytest.mark.parametrize(("command", "state", "code", "after"), CELLS)
def test_each_command_in_each_state(command: str, state: State, code: int, after: State) -> None:
    driver = Driver(finishes=False)
    driver.put(state)
    records = len(driver.log)
    answered = given(driver, command)
    if answered is None:  # the transaction is decided, and the response comes with COMPLETE
        assert code == 0
        assert driver.state is after
        driver.finish("t")
        assert driver.state is {PC: CC, PA: CA}[after]
        return
    assert (answered, driver.state) == (code, after)
    if code not in (0, 51):
        assert len(driver.log) == records, "a refused command must not append a record"


def test_the_table_of_this_file_has_every_command_and_state() -> None:
    assert list(TABLE) == COMMANDS
    assert all(len(row) == len(State) == len(STATES) for row in TABLE.values())


def test_dead_allows_only_init_producer_id_and_prepare_epoch_fence_allows_nothing() -> None:
    """Dead means that another coordinator has the id. The id may come back with InitProducerId."""
    assert FENCE not in INIT_PRODUCER_ID
    assert not {DEAD, FENCE} & set(ADD_PARTITIONS)
    for pairs in (END_SAME_EPOCH, END_CURRENT_EPOCH, END_PREVIOUS_EPOCH):
        assert not {DEAD, FENCE} & {state for state, _ in pairs}


@pytest.mark.parametrize("committed", [True, False])
def test_a_decision_is_completed_with_its_outcome(committed: bool) -> None:
    assert COMPLETED[PREPARED[committed]] is (CC if committed else CA)
