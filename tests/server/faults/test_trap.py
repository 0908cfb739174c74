"""Fail points that a test sets in environment variables. A fail point must be in `FAIL_POINTS`. The
broker runs its action at the given hit, and only with `--allow-faults`."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_protocol.internal.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    encode_transaction_log_key,
    encode_transaction_log_value,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.faults.points import FAIL_POINTS, Step
from oncelog_server.faults.steps import steps_of
from oncelog_server.faults.trap import Trap, UnknownFailPoint
from tests.harness.broker import Oncelog


@pytest.mark.parametrize("cell", [f"C{number}" for number in range(15)])
def test_every_cell_of_the_crash_matrix_has_a_fail_point(cell: str) -> None:
    assert any(cell in point.cell.split(", ") for point in FAIL_POINTS.values())


@pytest.mark.parametrize(
    "text", ["before-lunch", "before-prepare:0", "before-prepare:", "before-prepare:x", ""]
)
def test_the_error_for_an_unknown_fail_point_or_count_names_the_variable(text: str) -> None:
    with pytest.raises(UnknownFailPoint, match="ONCELOG_FAIL_AT"):
        Trap.parse(text)


def test_a_near_miss_gets_a_hint() -> None:
    with pytest.raises(UnknownFailPoint, match="did you mean before-prepare"):
        Trap.parse("before-prepair")


def test_the_action_runs_once_at_the_nth_hit_of_its_fail_point() -> None:
    sprung: list[tuple[str, int]] = []
    trap = Trap("after-data", 3, lambda name, count: sprung.append((name, count)))
    for _ in range(5):
        trap.reached("after-data")
        trap.reached("before-data")
    assert sprung == [("after-data", 3)]


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (TransactionState.EMPTY, Step.INITIALISE),
        (TransactionState.ONGOING, Step.ADD_PARTITIONS),
        (TransactionState.PREPARE_ABORT, Step.PREPARE),
        (TransactionState.COMPLETE_COMMIT, Step.COMPLETE),
    ],
)
def test_the_state_in_a_transaction_record_gives_the_step(
    state: TransactionState, step: Step
) -> None:
    value = TransactionLogValue(transaction_status=state, transaction_partitions=[])
    record = NewRecord(
        0,
        encode_transaction_log_key(TransactionLogKey("t")),
        encode_transaction_log_value(value),
    )
    # A batch that decides many transactions is one step.
    assert steps_of(TRANSACTION_STATE, bytes(build_batch([record, record]))) == [step]


def test_the_topic_decides_if_a_batch_is_data_or_offsets_of_a_group() -> None:
    batch = bytes(
        build_batch(
            [NewRecord(0, b"k", b"v")],
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )
    assert steps_of("t", batch * 2) == [Step.DATA] * 2
    assert steps_of(CONSUMER_OFFSETS, batch) == [Step.TXN_OFFSETS]


@pytest.mark.parametrize("variable", ["ONCELOG_FAIL_AT", "ONCELOG_SYNC_DELAY_MS"])
def test_a_broker_with_a_fault_variable_and_without_allow_faults_does_not_start(
    tmp_path: Path, variable: str
) -> None:
    """The start fails and names `--allow-faults`, so that no broker crashes by accident."""
    broker = Oncelog(tmp_path, environment={variable: "before-prepare"})
    assert broker.spawn().wait(60) == 2
    assert "--allow-faults" in broker.said()


def test_a_broker_with_an_unknown_fail_point_does_not_start(tmp_path: Path) -> None:
    broker = Oncelog(tmp_path)
    broker.fail_at("before-lunch")
    assert broker.spawn().wait(60) == 2
    assert "no such fail point" in broker.said()
