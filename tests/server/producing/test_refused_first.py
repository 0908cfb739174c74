"""If the broker refuses a batch with a retriable error, it also refuses the producer's later
batches until the refused batch is appended (R11)."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.results import SUCCESS, TransactionResult
from tests.server.log.driver import batch
from tests.server.producing.driver import NONE, Broker, codes, transactional


@pytest.mark.parametrize("adds_partitions", [True, False])
def test_r11_a_batch_does_not_overtake_the_refused_first_batch_of_its_producer(
    adds_partitions: bool,
) -> None:
    """The partition has no state of the producer, so no sequence check would notice the gap."""
    broker = Broker(answer=TransactionResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))

    def produce(sequence: int = 0) -> list[ErrorCode]:
        appends, _ = broker.produce(
            transactional(sequence=sequence), adds_partitions=adds_partitions
        )
        return codes(appends)

    assert produce() == [ErrorCode.NOT_ENOUGH_REPLICAS]
    broker.answer = SUCCESS
    behind = [produce(sequence) for sequence in range(1, 5)]
    assert behind == [[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]] * 4
    assert broker.ends[0] == 0
    assert [produce(sequence) for sequence in range(5)] == [[NONE]] * 5


def test_r11_a_batch_does_not_overtake_one_that_the_disk_has_refused() -> None:
    """The batches belong to no transaction. The disk is full for the first of the batches in
    flight."""
    broker = Broker()

    def produce(sequence: int) -> list[ErrorCode]:
        appends, _ = broker.produce(
            batch(producer_id=7, producer_epoch=0, base_sequence=sequence), transactional_id=None
        )
        return codes(appends)

    broker.files.fail_append(match=".log")
    assert produce(0) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert produce(1) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert [produce(0), produce(1)] == [[NONE], [NONE]]


def test_invalid_bytes_are_an_invalid_record_after_a_refused_batch() -> None:
    broker = Broker(answer=TransactionResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    broker.produce(transactional())
    appends, _ = broker.produce(bytearray(b"no batch"), transactional_id=None)
    assert codes(appends) == [ErrorCode.INVALID_RECORD]


def test_before_v12_a_forgotten_producer_continues_its_sequence() -> None:
    """A producer's sequence numbers continue over transactions, but the partition may forget the
    producer."""
    broker = Broker()
    appends, _ = broker.produce(transactional(sequence=5), adds_partitions=False)
    assert codes(appends) == [NONE]
