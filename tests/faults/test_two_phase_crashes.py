"""A producer takes over a prepared transaction from its previous instance and ends it
(`keepPreparedTxn`, KIP-939). The broker dies in between. The transaction is decided once, on all
partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, end_offset, last_stable_offset, merged, values
from tests.harness.dying import Dying
from tests.harness.transacting import add_partitions
from tests.harness.waiting import wait_until
from tests.harness.writing import BUSY, Identity, batch, end_transaction, find_coordinator, produce

TOPIC = "t"
PARTITIONS = range(3)
LAST_EPOCH = 32_766
SETTINGS = merged(QUICK, {"transaction.two.phase.commit.enable": "true"})
# The first three records of this kind add partitions. The fourth one is written when the next
# instance takes over the transaction.
KEEPING = ["before-add-partitions:4", "torn-add-partitions:4", "after-add-partitions:4"]
ENDING = [
    *("before-prepare", "torn-prepare", "after-prepare", "before-marker", "after-marker:2"),
    *("torn-marker:3", "after-marker:3", "before-complete", "torn-complete", "after-complete"),
    "answer-end-txn",
]


def init(wire: Wire, *, keep: bool) -> InitProducerIdResponse:
    """Send InitProducerId v6 until the coordinator is available and not busy. Return the
    response."""
    request = InitProducerIdRequest(TOPIC, 60_000, enable_2pc=True, keep_prepared_txn=keep)
    responses: list[InitProducerIdResponse] = []

    def answered() -> bool:
        responses.append(wire.call(request, 6))
        return responses[-1].error_code not in BUSY

    find_coordinator(wire, TOPIC)
    wait_until(answered, "a producer id")
    assert responses[-1].error_code == ErrorCode.NONE, ErrorCode(responses[-1].error_code)
    return responses[-1]


def identity(response: InitProducerIdResponse) -> Identity:
    return Identity(response.producer_id, response.producer_epoch, TOPIC)


def prepared(dying: Dying, *, at_last_epoch: bool) -> Identity:
    """Write a record to every partition in a two-phase transaction. Return its producer.

    `at_last_epoch`: use up the epochs of the producer id before the transaction.
    """
    dying.insist(lambda wire: create(wire, TOPIC, partitions=len(PARTITIONS)))
    producer = identity(dying.insist(lambda wire: init(wire, keep=False)))
    if at_last_epoch:
        left = LAST_EPOCH - producer.producer_epoch
        for _ in range(left):
            dying.wire.send(InitProducerIdRequest(TOPIC, 60_000, enable_2pc=True), 6)
        for _ in range(left):
            producer = identity(dying.wire.answer())
        assert producer.producer_epoch == LAST_EPOCH
    for partition in PARTITIONS:
        response = produce(
            dying.wire, TOPIC, batch(producer, 0), producer=producer, partition=partition
        )
        assert response.error_code == ErrorCode.NONE
    return producer


def wait_for_decision(wire: Wire, partition: int) -> None:
    """Wait until no open transaction is left. The end offset varies, because the log may have a
    marker from before the crash and the same marker again."""
    wait_until(
        lambda: last_stable_offset(wire, TOPIC, partition) == end_offset(wire, TOPIC, partition),
        f"partition {partition} is decided",
    )


def survive(tmp_path: Path, point: str, *, commit: bool, at_last_epoch: bool) -> None:
    with Dying(Oncelog(tmp_path, SETTINGS), point) as dying:
        first = prepared(dying, at_last_epoch=at_last_epoch)
        kept = dying.insist(lambda wire: init(wire, keep=True))
        assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == (
            first.producer_id,
            first.producer_epoch,
        )
        keeper = identity(kept)
        assert (keeper.producer_id != first.producer_id) == at_last_epoch
        ended = dying.insist(lambda wire: end_transaction(wire, keeper, commit=commit))
        assert ended.error_code == ErrorCode.NONE, ErrorCode(ended.error_code)
        assert len(dying.deaths) == 1, "the broker did not die exactly once"
        wire = dying.wire
        for partition in PARTITIONS:
            wait_for_decision(wire, partition)
            assert values(wire, TOPIC, partition=partition) == ([b"v"] if commit else [])
        assert add_partitions(wire, first, (TOPIC, 0)) != [ErrorCode.NONE]
        again = end_transaction(wire, keeper, commit=commit)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (
            ErrorCode.NONE,
            ended.producer_id,
            ended.producer_epoch,
        )
        heir = Identity(ended.producer_id, ended.producer_epoch, TOPIC)
        assert produce(wire, TOPIC, batch(heir, 0), producer=heir).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("point", "commit"),
    [(point, True) for point in (*KEEPING, *ENDING)]
    + [
        (point, False) for point in (KEEPING[2], "after-prepare", "after-marker:2", "torn-complete")
    ],
)
def test_w2_the_prepared_transaction_is_decided_whichever_step_the_broker_dies_at(
    tmp_path: Path, point: str, commit: bool
) -> None:
    survive(tmp_path, point, commit=commit, at_last_epoch=False)


def test_w5_e4_a_commit_at_the_last_epoch_reaches_the_original_producer_id(tmp_path: Path) -> None:
    survive(tmp_path, "after-prepare", commit=True, at_last_epoch=True)
