"""Every state with every command, as KIP-98, KIP-360 and KIP-890 say; and no row more."""

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

# The id has producer id 77 and epoch 5, and the bump from 4 to 5 was its own producer's.
# Columns: code of the answer -> state afterwards, "-" for none.
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
E, O, PC, PA, CC, CA, DEAD, FENCE = (
    State.EMPTY,
    State.ONGOING,
    State.PREPARE_COMMIT,
    State.PREPARE_ABORT,
    State.COMPLETE_COMMIT,
    State.COMPLETE_ABORT,
    State.DEAD,
    State.PREPARE_EPOCH_FENCE,
)
TABLE = {
    #                        Empty    Ongoing  PrepC     PrepA     CompC    CompA    Dead      Fence
    "init a new instance":  [(0, E),  (51, PA), (51, PC), (51, PA), (0, E),  (0, E),  (48, DEAD), (48, FENCE)],
    "init (77, 5) itself":  [(0, E),  (51, PA), (51, PC), (51, PA), (0, E),  (0, E),  (48, DEAD), (48, FENCE)],
    "init (77, 4) again":   [(0, E),  (90, O),  (51, PC), (51, PA), (0, E),  (0, E),  (48, DEAD), (48, FENCE)],
    "init (77, 3) a zombie": [(90, E), (90, O),  (51, PC), (51, PA), (90, CC), (90, CA), (90, DEAD), (90, FENCE)],
    "add one more":         [(0, O),  (0, O),  (51, PC), (51, PA), (0, O),  (0, O),  (48, DEAD), (48, FENCE)],
    "add a zombie":         [(90, E), (90, O), (51, PC), (51, PA), (90, CC), (90, CA), (90, DEAD), (90, FENCE)],
    "V1 commit":            [(48, E), (0, PC), (51, PC), (51, PA), (0, CC), (48, CA), (48, DEAD), (48, FENCE)],
    "V1 abort":             [(48, E), (0, PA), (51, PC), (51, PA), (48, CC), (0, CA), (48, DEAD), (48, FENCE)],
    "V1 commit of (77, 4)": [(90, E), (90, O), (90, PC), (90, PA), (90, CC), (90, CA), (90, DEAD), (90, FENCE)],
    "V2 commit":            [(48, E), (0, PC), (51, PC), (51, PA), (48, CC), (48, CA), (48, DEAD), (48, FENCE)],
    "V2 abort":             [(0, PA), (0, PA), (51, PC), (51, PA), (0, PA), (0, PA), (48, DEAD), (48, FENCE)],
    "V2 commit of (77, 4)": [(90, E), (90, O), (51, PC), (51, PA), (0, CC), (90, CA), (48, DEAD), (48, FENCE)],
    "V2 abort of (77, 4)":  [(90, E), (90, O), (51, PC), (51, PA), (48, CC), (0, CA), (48, DEAD), (48, FENCE)],
    "V2 commit of (77, 6)": [(90, E), (90, O), (90, PC), (90, PA), (90, CC), (90, CA), (90, DEAD), (90, FENCE)],
}  # fmt: skip
STATES = [E, O, PC, PA, CC, CA, DEAD, FENCE]


def given(driver: Driver, command: str) -> ErrorCode | None:
    """The code of the answer; None while EndTxn waits for the markers."""
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
    pytest.param(command, state, *row[number], id=f"{state.name}, {command}")
    for command, row in TABLE.items()
    for number, state in enumerate(STATES)
]


@pytest.mark.parametrize(("command", "state", "code", "after"), CELLS)
def test_a_command_meets_a_state(command: str, state: State, code: int, after: State) -> None:
    driver = Driver(finishes=False)
    driver.put(state)
    records = len(driver.log)
    answered = given(driver, command)
    if answered is None:  # decided; the answer comes with COMPLETE
        assert code == 0
        assert driver.state is after
        driver.finish("t")
        assert driver.state is {PC: CC, PA: CA}[after]
        return
    assert (answered, driver.state) == (code, after)
    if code not in (0, 51):
        assert len(driver.log) == records, "refused, and yet it left a record"


def test_the_table_of_this_file_has_every_pair() -> None:
    assert list(TABLE) == COMMANDS
    assert all(len(row) == len(State) == len(STATES) for row in TABLE.values())


def test_a_state_that_is_in_no_table_allows_nothing() -> None:
    for table in (INIT_PRODUCER_ID, ADD_PARTITIONS):
        assert not {DEAD, FENCE} & set(table)
    for pairs in (END_SAME_EPOCH, END_CURRENT_EPOCH, END_PREVIOUS_EPOCH):
        assert not {DEAD, FENCE} & {state for state, _ in pairs}


@pytest.mark.parametrize("committed", [True, False])
def test_a_decision_is_completed_as_it_was_made(committed: bool) -> None:
    assert COMPLETED[PREPARED[committed]] is (CC if committed else CA)
