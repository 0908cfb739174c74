"""The kill column of the crash matrix, with real processes. The broker dies at each step of a
transaction over three partitions and a group's offsets. The client continues after the restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_server.faults.points import FAIL_POINTS
from tests.harness.broker import Oncelog
from tests.harness.driving import (
    QUICK,
    create,
    end_offset,
    events,
    last_stable_offset,
    merged,
    values,
)
from tests.harness.dying import Dying
from tests.harness.transacting import add_offsets, add_partitions, commit_offset, committed_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    new_identity,
    produce,
)

PARTITIONS = range(3)
OFFSET = 42
TOPIC = "t"
# Cells of the crash matrix, each with a fail point. The matrix has no cell ("") for the steps of
# the group's offsets.
CELLS = [
    ("C0", "before-add-partitions"),
    ("C0", "before-add-partitions:3"),
    ("C0", "torn-add-partitions"),
    ("C1", "after-add-partitions"),
    ("C3", "before-data:2"),
    ("C4", "after-data:2"),
    ("C3", "torn-data:3"),
    ("C4", "answer-produce:3"),
    ("C5", "before-prepare"),
    ("C5", "torn-prepare"),
    ("C6", "after-prepare"),
    ("C8", "before-marker"),
    ("C9", "after-marker"),
    ("C10", "after-marker:2"),
    ("C10", "torn-marker:3"),
    ("C10", "after-marker:3"),
    ("C11", "after-marker:4"),
    ("C12", "before-complete"),
    ("C12", "torn-complete"),
    ("C13", "after-complete"),
    ("C14", "answer-end-txn"),
    ("", "before-txn-offsets"),
    ("", "after-txn-offsets"),
    ("", "answer-txn-offset-commit"),
    ("", "before-offsets-marker"),
    ("", "after-offsets-marker"),
]
ONLY_VERSION_1 = [("C2", "answer-add-partitions"), ("C2", "answer-add-offsets")]
# Fail points with flush.on.ack, between an fsync and the responses that wait for it.
SYNCED = [
    ("C2", "synced-add-partitions"),
    ("C4", "synced-data:3"),
    ("C7", "synced-prepare"),
    ("C10", "synced-marker:2"),
    ("C14", "synced-complete"),
]


def write(dying: Dying, producer: Identity, sequence: int, value: bytes, version: int) -> None:
    """Write one record to each partition, and an offset. The transaction stays open."""
    for partition in PARTITIONS:
        write_one(
            dying, producer, partition, bytes(batch(producer, sequence, value=value)), version
        )
    if version == 1:
        assert dying.insist(lambda wire: add_offsets(wire, producer, TOPIC)) == ErrorCode.NONE
    offsets = 5 if version == 2 else 3
    code = dying.insist(lambda wire: commit_offset(wire, producer, TOPIC, OFFSET, version=offsets))
    assert code == ErrorCode.NONE, ErrorCode(code)


def write_one(dying: Dying, producer: Identity, partition: int, data: bytes, version: int) -> None:
    """Write a record. A client of version 1 first adds the partition."""
    if version == 1:
        added = dying.insist(lambda wire: add_partitions(wire, producer, (TOPIC, partition)))
        assert added == [ErrorCode.NONE]
    response = dying.insist(
        lambda wire: produce(
            wire,
            TOPIC,
            data,
            producer=producer,
            partition=partition,
            version=12 if version == 2 else 11,
        )
    )
    assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)


def end(dying: Dying, producer: Identity, version: int, *, commit: bool) -> Identity:
    """End the transaction. Return the producer's identity after the end."""
    number = 5 if version == 2 else 4
    response = dying.insist(
        lambda wire: end_transaction(wire, producer, commit=commit, version=number)
    )
    assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)
    if version == 1:
        return producer
    return Identity(response.producer_id, response.producer_epoch, producer.transactional_id)


def check(wire: Wire, visible: list[bytes]) -> None:
    """Check that every partition is decided up to its end and has each of these committed records
    once."""
    for partition in PARTITIONS:
        wait_for_decision(wire, partition)
        assert values(wire, TOPIC, partition=partition) == visible


def wait_for_decision(wire: Wire, partition: int) -> None:
    wait_until(
        lambda: last_stable_offset(wire, TOPIC, partition) == end_offset(wire, TOPIC, partition),
        f"partition {partition} is decided",
    )


def survive(dying: Dying, version: int, *, commit: bool) -> None:
    """Run a transaction in which the broker dies, and a second transaction."""
    dying.insist(lambda wire: create(wire, TOPIC, partitions=len(PARTITIONS)))
    dying.insist(lambda wire: find_coordinator(wire, TOPIC, key_type=0))
    producer = dying.insist(lambda wire: new_identity(wire, TOPIC))
    write(dying, producer, 0, b"first", version)
    heir = end(dying, producer, version, commit=commit)
    assert len(dying.deaths) == 1, "the point was not reached"
    expected = [b"first"] if commit else []
    check(dying.wire, expected)
    group = committed_offset(dying.wire, TOPIC, stable=True)
    assert group == (OFFSET if commit else -1, 0)
    # Version 1 keeps its epoch and continues its sequence numbers. Version 2 has a new epoch and
    # starts at sequence number 0.
    write(dying, heir, 1 if version == 1 else 0, b"second", version)
    end(dying, heir, version, commit=True)
    check(dying.wire, [*expected, b"second"])
    events(dying.broker)


def parameters(version: int) -> list[tuple[str, str]]:
    """Return the cells for a client of this transaction version. Version 1 has cells of its own,
    because it adds its partitions itself. The fail points at a torn record or at an offsets record
    are left out for version 1, because they are the same in both versions."""
    if version == 2:
        return CELLS
    return [cell for cell in CELLS if cell[0] and "torn" not in cell[1]] + ONLY_VERSION_1


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize(
    ("version", "cell", "point"),
    [(version, *parameter) for version in (1, 2) for parameter in parameters(version)],
)
def test_c0_to_c14_ca_cb_cc_ce_cg_o12_a_transaction_is_all_or_nothing(
    tmp_path: Path, version: int, cell: str, point: str, commit: bool
) -> None:
    """Whatever the step at which the broker dies, the retry has the requested result. After a
    commit, the records and the group's offset are there once on all partitions. No partition stays
    undecided, and the id can be used again."""
    assert cell in FAIL_POINTS[point.partition(":")[0]].cell
    with Dying(Oncelog(tmp_path, QUICK), point) as dying:
        survive(dying, version, commit=commit)


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize(("cell", "point"), SYNCED)
def test_c2_c4_c7_c10_c14_a_synced_decision_survives_without_a_response(
    tmp_path: Path, cell: str, point: str, commit: bool
) -> None:
    """With oncelog.flush.on.ack, a synced decision is below the high watermark."""
    settings = merged(QUICK, {"oncelog.flush.on.ack": "true"})
    with Dying(Oncelog(tmp_path, settings), point) as dying:
        survive(dying, 2, commit=commit)
