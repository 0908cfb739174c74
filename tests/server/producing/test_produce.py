"""One Produce to several partitions: the checks, the request to the transaction coordinator, the
appends, and the wait for the disk."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred, Order
from oncelog_server.partition.follower_fetch import FetchingFollower, record_fetch
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.results import SUCCESS, TransactionResult
from tests.server.log.driver import NOW_MS, batch, read_all
from tests.server.partition.partitions import mark, partition
from tests.server.producing.driver import NONE, TIMEOUT_MS, Broker, codes, transactional

# --- acks


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_0_and_1_do_not_wait_for_the_disk(acks: int) -> None:
    broker = Broker(flush_on_ack=True)
    appends, later = broker.produce(batch(), batch(), acks=acks)
    assert (codes(appends), later) == ([NONE, NONE], None)
    assert broker.ends == [1, 1, 0]


def test_acks_all_waits_until_every_partition_is_committed() -> None:
    broker = Broker(flush_on_ack=True)
    appends, later = broker.produce(batch(), batch(), batch(3))
    assert later is not None
    assert later.order is Order.ORDERED, "the connection may serve the next request meanwhile"
    broker.files.pending.pop(0)()
    assert not later.done
    broker.files.settle()
    assert later.done
    assert [append.appended and append.appended.last_offset for append in appends] == [0, 0, 2]


def test_acks_all_without_flush_on_ack_completes_at_once() -> None:
    appends, later = Broker().produce(batch(), batch())
    assert (codes(appends), later) == ([NONE, NONE], None)


def test_a_retry_of_a_batch_that_is_not_committed_yet_waits_too() -> None:
    broker = Broker(flush_on_ack=True)
    data = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    broker.produce(bytearray(data))
    appends, later = broker.produce(bytearray(data))
    assert later is not None
    assert not later.done
    broker.files.settle()
    assert later.done
    assert appends[0].appended is not None
    assert (appends[0].appended.base_offset, broker.ends[0]) == (0, 1)


def test_a_failed_fsync_fails_only_the_batch_of_its_partition() -> None:
    broker = Broker(flush_on_ack=True)
    appends, later = broker.produce(batch(), batch())
    assert later is not None
    broker.files.fail_sync()
    broker.files.settle()
    assert later.done
    assert codes(appends) == [ErrorCode.KAFKA_STORAGE_ERROR, NONE]


# --- followers


def fetched(partition: Partition, broker_id: int, offset: int) -> None:
    """Let a follower fetch from `offset`."""
    record_fetch(partition, FetchingFollower(broker_id, -1, -1, NOW_MS), offset)


def replicated(isr: tuple[int, ...] = (0, 1), min_insync_replicas: int = 1) -> Broker:
    return Broker(isr=isr, replicas=(0, 1), min_insync_replicas=min_insync_replicas)


def test_acks_all_waits_for_the_isr() -> None:
    broker = replicated()
    appends, later = broker.produce(batch(2))
    assert later is not None
    fetched(broker.partitions[0], 1, 1)
    assert not later.done
    fetched(broker.partitions[0], 1, 2)
    assert (later.done, codes(appends), broker.timers.waiting) == (True, [NONE], [])


def test_7_after_its_timeout_a_produce_ends_and_its_records_may_still_be_committed() -> None:
    broker = replicated()
    appends, later = broker.produce(batch(), batch())
    assert later is not None
    fetched(broker.partitions[0], 1, 1)
    broker.timers.advance(TIMEOUT_MS - 1)
    assert not later.done
    broker.timers.advance(1)
    assert (later.done, codes(appends)) == (True, [NONE, ErrorCode.REQUEST_TIMED_OUT])
    fetched(broker.partitions[1], 1, 1)
    assert broker.partitions[1].high_watermark == 1
    assert codes(appends) == [NONE, ErrorCode.REQUEST_TIMED_OUT]


def test_a_produce_that_was_cancelled_leaves_no_timer() -> None:
    broker = replicated()
    _, later = broker.produce(batch())
    assert later is not None
    later.cancel()
    assert not broker.timers.waiting
    fetched(broker.partitions[0], 1, 1)


def test_19_below_the_min_isr_acks_all_appends_nothing() -> None:
    broker = replicated(isr=(0,), min_insync_replicas=2)
    appends, later = broker.produce(batch())
    assert (later, codes(appends), broker.ends[0]) == (None, [ErrorCode.NOT_ENOUGH_REPLICAS], 0)
    appends, _ = broker.produce(batch(), acks=1)
    assert (codes(appends), broker.ends[0]) == ([NONE], 1)


def test_b6_20_if_the_isr_falls_below_the_min_isr_after_the_append_the_wait_ends() -> None:
    broker = replicated(min_insync_replicas=2)
    appends, later = broker.produce(batch())
    assert later is not None
    broker.partitions[0].become_leader(0, 0, (0,), (0, 1))
    assert (later.done, codes(appends)) == (True, [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
    assert broker.partitions[0].high_watermark == 0


# --- several partitions


def test_every_partition_has_its_own_error() -> None:
    broker = Broker()
    broker.partitions[1].become_follower(1, 1)
    data = batch()
    data[-1] ^= 1
    appends, later = broker.produce(batch(), batch(), data)
    assert later is None
    assert codes(appends) == [NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE]
    assert broker.ends == [1, 0, 0]


def test_an_unknown_partition_does_not_fail_the_others() -> None:
    broker = Broker()
    appends, _ = broker.produce(batch(), batch(), partitions=[None, broker.partitions[1]])
    assert codes(appends) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NONE]


@pytest.mark.parametrize("data", [None, bytearray()], ids=["null", "empty"])
def test_a_partition_without_a_batch_is_an_invalid_record(data: bytearray | None) -> None:
    broker = Broker()
    appends, _ = broker.produce(data, batch())
    assert codes(appends) == [ErrorCode.INVALID_RECORD, NONE]


@pytest.mark.parametrize(("acks", "code"), [(-1, ErrorCode.NOT_ENOUGH_REPLICAS), (1, NONE)])
def test_only_acks_all_needs_min_insync_replicas(acks: int, code: ErrorCode) -> None:
    replica = partition(min_insync_replicas=2, replicas=(0, 1), isr=(0,))
    appends, _ = Broker().produce(batch(), acks=acks, partitions=[replica])
    assert codes(appends) == [code]
    assert replica.log_end_offset == (0 if code else 1)


# --- the producer of a batch


def test_Z17_a_request_with_batches_of_two_producers_is_refused_as_a_whole() -> None:
    broker = Broker()
    for other in (transactional(8), transactional(7, epoch=1)):
        appends, later = broker.produce(transactional(7), batch(), other)
        assert later is None
        assert set(codes(appends)) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert (broker.ends, broker.asked) == ([0, 0, 0], [])


def test_H48_a_transactional_batch_without_a_transactional_id_is_refused() -> None:
    broker = Broker()
    appends, _ = broker.produce(transactional(), batch(), transactional_id=None)
    assert set(codes(appends)) == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert broker.ends == [0, 0, 0]


def test_Z16_the_batch_of_another_transactional_id_is_refused() -> None:
    broker = Broker(answer=TransactionResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    appends, _ = broker.produce(transactional(), batch())
    assert codes(appends) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING, NONE]
    assert broker.ends == [0, 1, 0]


def test_an_idempotent_batch_asks_no_coordinator() -> None:
    broker = Broker()
    broker.produce(batch(producer_id=7, producer_epoch=0, base_sequence=0))
    assert broker.asked == []


# --- KIP-890: the first batch of a transaction


def test_only_the_first_batch_of_a_transaction_asks_the_coordinator() -> None:
    broker = Broker()
    broker.produce(transactional(), transactional())
    (command,) = broker.asked
    assert command == AddPartitions(
        "t", 7, 0, frozenset({TopicPartition("topic", 0), TopicPartition("topic", 1)}), 2
    )
    broker.produce(transactional(sequence=1), transactional(sequence=1))
    assert len(broker.asked) == 1
    mark(broker.partitions[0], 7)
    broker.produce(transactional(sequence=2), transactional(sequence=2))
    assert broker.asked[1].partitions == {TopicPartition("topic", 0)}
    assert len(broker.partitions[0].guards) == 0


def test_before_v12_the_partition_is_looked_up_and_not_added() -> None:
    """The broker asks the coordinator only before the first batch of a transaction (KIP-890, part
    1)."""
    broker = Broker()
    appends, _ = broker.produce(transactional(), adds_partitions=False)
    assert codes(appends) == [NONE]
    assert [(producer.verify_only, producer.producer_id) for producer in broker.asked] == [
        (True, 7)
    ]
    broker.produce(transactional(sequence=1), adds_partitions=False)
    assert len(broker.asked) == 1


@pytest.mark.parametrize(
    ("answer", "adds_partitions", "code"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, False, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, False, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, True, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, True, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_Z3_Z16_a_batch_that_the_coordinator_refuses_is_not_appended(
    answer: ErrorCode, adds_partitions: bool, code: ErrorCode
) -> None:
    broker = Broker(answer=TransactionResult(answer))
    appends, later = broker.produce(transactional(), adds_partitions=adds_partitions)
    assert (codes(appends), later) == ([code], None)
    assert broker.ends == [0, 0, 0]


def test_R12_a_batch_verified_for_an_earlier_transaction_is_refused() -> None:
    """The coordinator responds after the earlier transaction has ended and the same producer has
    begun another transaction (ABA)."""
    answer: Deferred[TransactionResult] = Deferred()
    broker = Broker(answer=answer)
    appends, later = broker.produce(transactional(), adds_partitions=False)
    assert later is not None
    mark(broker.partitions[0], producer_id=7)
    broker.answer = Deferred()
    broker.produce(transactional(), adds_partitions=False)
    answer.complete(SUCCESS)
    assert codes(appends) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert read_all(broker.partitions[0]._log) != []
    assert broker.partitions[0].log_end_offset == 1, "the log has only the marker"


def test_a_parked_batch_is_copied_and_appended_when_the_coordinator_has_responded() -> None:
    answer: Deferred[TransactionResult] = Deferred()
    broker = Broker(answer=answer)
    network = bytearray(transactional())
    appends, later = broker.produce(memoryview(network), batch())
    assert later is not None
    assert broker.ends == [0, 0, 0], "no batch is appended before the coordinator responds"
    network[:] = bytes(len(network))  # the next request is read into the same buffer
    answer.complete(SUCCESS)
    assert later.done
    assert codes(appends) == [NONE, NONE]
    (record,) = read_all(broker.partitions[0]._log)
    assert record.key == b"k0"
    assert len(broker.partitions[0].guards) == 0
    assert [append.records for append in appends] == [None, None], "no bytes stay in memory"


def test_with_flush_on_ack_a_parked_batch_waits_for_the_coordinator_and_the_disk() -> None:
    answer: Deferred[TransactionResult] = Deferred()
    broker = Broker(flush_on_ack=True, answer=answer)
    (append,), later = broker.produce(transactional())
    assert later is not None
    assert append.records is not None
    answer.complete(SUCCESS)
    assert (broker.ends[0], later.done) == (1, False)
    assert append.records is None
    broker.files.settle()
    assert later.done


def test_R12_M19_a_batch_with_a_transaction_that_ends_while_it_is_parked_is_refused() -> None:
    answer: Deferred[TransactionResult] = Deferred()
    broker = Broker(answer=answer)
    appends, later = broker.produce(transactional(), transactional())
    mark(broker.partitions[0], 7)
    answer.complete(SUCCESS)
    assert later is not None
    assert later.done
    assert codes(appends) == [ErrorCode.TRANSACTION_ABORTABLE, NONE]
    assert broker.ends == [1, 1, 0]  # partition 0 has the marker, partition 1 has the batch
    assert [len(partition.guards) for partition in broker.partitions] == [0, 0, 0]


def test_R12_a_response_for_the_former_transaction_appends_nothing_to_the_next_one() -> None:
    old: Deferred[TransactionResult] = Deferred()
    broker = Broker(answer=old)
    appends, _ = broker.produce(transactional())
    mark(broker.partitions[0], 7)
    broker.answer = Deferred()
    broker.produce(transactional(sequence=0))
    old.complete(SUCCESS)
    assert codes(appends) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert broker.ends[0] == 1


@pytest.mark.parametrize("parked", [False, True], ids=["at once", "parked"])
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_codes_if_the_producers_partition_cannot_be_added(
    code: ErrorCode, expected: ErrorCode, parked: bool
) -> None:
    result = TransactionResult(code)
    answer: Deferred[TransactionResult] = Deferred()
    broker = Broker(answer=answer if parked else result)
    appends, _ = broker.produce(transactional(), batch())
    if parked:
        answer.complete(result)
    assert codes(appends) == [expected, NONE]
    assert broker.ends == [0, 1, 0]
    assert len(broker.partitions[0].guards) == 0


def test_a_missing_coordinator_is_a_retriable_error() -> None:
    broker = Broker(answer=Refused(ErrorCode.NOT_COORDINATOR))
    appends, _ = broker.produce(transactional())
    assert codes(appends) == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_if_the_coordinators_response_is_abandoned_the_produce_is_abandoned() -> None:
    answer: Deferred[TransactionResult] = Deferred()
    broker = Broker(answer=answer)
    _, later = broker.produce(transactional())
    assert later is not None
    answer.abandon()
    assert later.abandoned
    assert not any(len(partition.guards) for partition in broker.partitions)


def test_R12_a_partition_with_a_batch_already_takes_none_after_the_marker() -> None:
    """The other partition of the request is verified meanwhile. A batch after the marker would open
    a transaction that no coordinator knows."""
    broker = Broker()
    broker.produce(transactional(), adds_partitions=False)
    answer: Deferred[TransactionResult] = Deferred()
    broker.answer = answer
    appends, _ = broker.produce(transactional(sequence=1), transactional(), adds_partitions=False)
    mark(broker.partitions[0], 7, committed=False)
    answer.complete(SUCCESS)
    assert codes(appends) == [ErrorCode.TRANSACTION_ABORTABLE, NONE]
    assert not broker.partitions[0].open_transactions()
    assert [len(partition.guards) for partition in broker.partitions] == [0, 0, 0]
