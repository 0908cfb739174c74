"""Batches are sent at the right time and in order. A failed batch is sent again, in order."""

from __future__ import annotations

from oncelog_client.core.batch import Batch, record_size
from oncelog_client.core.batching import Accumulator, SendOutcome
from oncelog_client.core.producer_id import NO_IDENTITY, ProducerIdAndEpoch
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import read_header, read_records
from oncelog_protocol.records.record import EncodedRecords, NewRecord
from tests.client.accumulators import IDENTITY, OTHER, TP, accumulator


def record(size: int = 10) -> NewRecord:
    return NewRecord(1000, None, b"x" * size)


def fill(acc: Accumulator[int], count: int, *, tp: TopicPartition = TP, now: float = 0) -> None:
    """Append `count` records, each in its own batch."""
    for number in range(count):
        acc.append(tp, record(200), number, now)


def known(acc: Accumulator[int]) -> Accumulator[int]:
    """Write a batch to each partition, so that the producer's next sequence number there is 1."""
    fill(acc, 1)
    fill(acc, 1, tp=OTHER)
    for batch in drain(acc):
        acc.succeeded(batch)
    return acc


def drain(acc: Accumulator[int], now: float = 0) -> list[Batch[int]]:
    return acc.drain([TP, OTHER], now, 1 << 20)


def test_a_batch_leaves_after_linger_and_not_before() -> None:
    acc = accumulator()
    acc.append(TP, record(), 0, 100)
    assert acc.ready_at_ms(TP, 100) == 105
    assert drain(acc, 104) == []
    assert len(drain(acc, 105)) == 1


def test_a_full_batch_leaves_at_once_and_append_returns_true() -> None:
    acc = accumulator()
    closed = [acc.append(TP, record(100), number, 0) for number in range(2)]
    assert closed == [False, True]
    assert [batch.deliveries for batch in drain(acc)] == [[0]]


def test_a_flush_ends_the_linger() -> None:
    acc = accumulator(linger_ms=60_000)
    acc.append(TP, record(), 0, 0)
    acc.flushes_in_progress += 1
    assert len(drain(acc)) == 1


def test_a_request_has_one_batch_per_partition_up_to_its_maximum_size() -> None:
    acc = known(accumulator())
    fill(acc, 2)
    fill(acc, 2, tp=OTHER)
    assert {batch.partition for batch in drain(acc)} == {TP, OTHER}
    assert len(acc.drain([TP, OTHER], 0, 1)) == 1


def test_no_partition_starves_when_requests_are_small() -> None:
    acc = known(accumulator())
    fill(acc, 4)
    fill(acc, 4, tp=OTHER)
    turns = [acc.drain([TP, OTHER], 0, 1)[0].partition for _ in range(4)]
    assert set(turns[:2]) == {TP, OTHER}


def test_a_sent_batch_has_the_producer_id_epoch_and_sequence() -> None:
    acc = known(accumulator(batch_size=60))
    for number in range(5):
        acc.append(TP, record(1), number, 0)
    first = acc.drain([TP], 5, 1 << 20)[0]
    acc.append(TP, record(1), 5, 5)
    second = acc.drain([TP], 10, 1 << 20)[0]
    headers = [read_header(batch.wire) for batch in (first, second)]
    assert [(h.producer_id, h.producer_epoch) for h in headers] == [IDENTITY, IDENTITY]
    assert [h.base_sequence for h in headers] == [1, 1 + len(first.records)]
    assert len(read_records(first.wire, max_bytes=1 << 20)) == len(first.records)


def test_nothing_is_sent_without_a_producer_id() -> None:
    acc = accumulator()
    acc.identity = NO_IDENTITY
    fill(acc, 1)
    assert drain(acc) == []
    assert acc.ready_at_ms(TP, 0) is None


def test_the_first_batch_of_a_producer_is_not_overtaken_in_its_partition() -> None:
    """A leader that does not know the producer accepts any sequence number as its first."""
    acc = accumulator()
    fill(acc, 3)
    (first,) = drain(acc)
    assert drain(acc) == []
    acc.failed(first, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, 0.5)
    assert drain(acc, 500) == [first]
    assert drain(acc, 500) == []
    acc.succeeded(first)
    assert [batch.base_sequence for batch in (*drain(acc, 500), *drain(acc, 500))] == [1, 2]


def test_at_most_five_batches_of_a_partition_are_in_flight() -> None:
    acc = known(accumulator())
    fill(acc, 7)
    sent = [drain(acc) for _ in range(7)]
    assert [len(batches) for batches in sent] == [1, 1, 1, 1, 1, 0, 0]
    acc.succeeded(sent[0][0])
    assert len(drain(acc)) == 1


def test_a_failed_batch_is_resent_first_and_alone_after_its_backoff() -> None:
    acc = known(accumulator())
    fill(acc, 3)
    first, second = drain(acc)[0], drain(acc)[0]
    assert acc.failed(first, ErrorCode.NOT_LEADER_OR_FOLLOWER, 10, 0.5) is SendOutcome.RETRIED
    # The leader refuses the second batch, because the first is missing. The third waits for both.
    assert (
        acc.failed(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 10, 0.5) is SendOutcome.RETRIED
    )
    assert drain(acc, 109) == []
    assert drain(acc, 110) == [first]
    assert drain(acc, 110) == []
    acc.succeeded(first)
    assert drain(acc, 110) == [second]
    acc.succeeded(second)
    assert len(drain(acc, 110)) == 1


def test_a_batch_is_resent_at_once_if_the_response_names_the_new_leader() -> None:
    """KIP-951: the leader is known, so there is nothing to wait for."""
    acc = accumulator()
    fill(acc, 1)
    (batch,) = drain(acc)
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert acc.failed(batch, code, 10, 0.5, is_moved=True) is SendOutcome.RETRIED
    assert drain(acc, 10) == [batch]


def test_no_new_batch_is_sent_while_an_earlier_one_is_resent() -> None:
    """A leader recognizes duplicates of the last five batches only. After five new batches, a
    resent batch could be written twice."""
    acc = known(accumulator())
    fill(acc, 2)
    first = drain(acc)[0]
    acc.failed(first, ErrorCode.NETWORK_EXCEPTION, 0, 0.5)
    assert drain(acc, 100) == [first]
    assert drain(acc, 100) == []
    acc.succeeded(first)
    assert len(drain(acc, 100)) == 1


def test_no_third_batch_is_sent_while_the_first_is_resent_and_the_second_in_flight() -> None:
    acc = known(accumulator())
    fill(acc, 3)
    first, second = drain(acc)[0], drain(acc)[0]
    acc.failed(first, ErrorCode.NETWORK_EXCEPTION, 0, 0.5)
    assert drain(acc, 100) == [first]
    assert (first.attempts, second.attempts) == (2, 1)
    assert drain(acc, 100) == []


def test_a_retry_is_byte_for_byte_the_same() -> None:
    acc = accumulator()
    fill(acc, 1)
    batch = drain(acc)[0]
    wire = bytes(batch.wire)
    acc.failed(batch, ErrorCode.NETWORK_EXCEPTION, 0, 0.5)
    assert bytes(drain(acc, 200)[0].wire) == wire


def test_after_a_lost_producer_state_all_sent_batches_are_resent_in_a_new_epoch() -> None:
    acc = known(accumulator())
    fill(acc, 2)
    first, second = drain(acc)[0], drain(acc)[0]
    assert acc.failed(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0.5) is SendOutcome.RETRIED
    # Until the second response arrives, the second batch may still be written under the old epoch.
    assert drain(acc, 500) == []
    assert acc.failed(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0.5) is SendOutcome.RETRIED
    again = drain(acc, 500)
    assert again == [first]
    acc.succeeded(first)
    again += drain(acc, 500)
    headers = [read_header(batch.wire) for batch in again]
    assert [(h.producer_epoch, h.base_sequence) for h in headers] == [(4, 0), (4, 1)]


def test_other_partitions_finish_under_the_old_epoch_before_they_take_the_new_one() -> None:
    acc = accumulator()
    fill(acc, 1)
    fill(acc, 2, tp=OTHER)
    broken, healthy = sorted(drain(acc), key=lambda batch: batch.partition)
    acc.failed(broken, ErrorCode.UNKNOWN_PRODUCER_ID, 0, 0.5)
    assert drain(acc, 500) == [broken]
    acc.succeeded(healthy)
    following = drain(acc, 500)[0]
    assert (following.partition, following.identity.producer_epoch) == (OTHER, 4)
    assert following.base_sequence == 0


def test_after_the_highest_epoch_the_producer_needs_a_new_producer_id() -> None:
    acc = accumulator()
    acc.identity = ProducerIdAndEpoch(7, (1 << 15) - 1)
    fill(acc, 1)
    batch = drain(acc)[0]
    acc.failed(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0.5)
    assert acc.identity == NO_IDENTITY
    assert drain(acc, 500) == []
    acc.adopt(ProducerIdAndEpoch(8, 0))
    assert drain(acc, 500) == [batch]
    assert batch.identity == ProducerIdAndEpoch(8, 0)


def test_a_transactional_producer_does_not_bump_its_epoch_by_itself() -> None:
    acc = accumulator(transactional=True)
    fill(acc, 2)
    batch = drain(acc)[0]
    outcome = acc.failed(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0.5)
    assert outcome is SendOutcome.FAILED
    assert acc.is_unresolved
    assert drain(acc, 500) == []
    acc.drop_unsent()
    acc.adopt(ProducerIdAndEpoch(7, 4))
    assert not acc.is_unresolved
    fill(acc, 1, now=600)
    assert drain(acc, 700)[0].base_sequence == 0


def test_sequences_continue_over_transactions_of_one_epoch() -> None:
    acc = accumulator(transactional=True)
    for sequence in range(2):
        fill(acc, 1)
        batch = drain(acc)[0]
        assert batch.base_sequence == sequence
        acc.succeeded(batch)
        acc.adopt(IDENTITY)


def test_a_batch_that_is_too_large_is_split_in_order() -> None:
    acc = accumulator(batch_size=1000)
    for number in range(5):
        acc.append(TP, record(), number, 0)
    whole = drain(acc, 5)[0]
    assert acc.failed(whole, ErrorCode.MESSAGE_TOO_LARGE, 5, 0.5) is SendOutcome.SPLIT
    first = drain(acc, 5)[0]
    acc.succeeded(first)
    second = drain(acc, 5)[0]
    assert (first.deliveries, second.deliveries) == ([0, 1], [2, 3, 4])
    assert (first.base_sequence, second.base_sequence) == (0, 2)
    acc.succeeded(second)
    assert acc.buffered_bytes == 0


def test_a_single_record_that_is_too_large_fails() -> None:
    acc = accumulator()
    fill(acc, 1)
    assert acc.failed(drain(acc)[0], ErrorCode.MESSAGE_TOO_LARGE, 0, 0.5) is SendOutcome.FAILED


def test_encoded_batches_keep_their_place_and_get_the_next_sequences() -> None:
    acc = known(accumulator())
    acc.append(TP, record(), 0, 0)
    acc.append_encoded(TP, EncodedRecords.of([record(), record()]), 1, 0)
    acc.append(TP, record(), 2, 0)
    batches = [*drain(acc), *drain(acc), *drain(acc, 5)]
    assert [(batch.base_sequence, batch.count) for batch in batches] == [(1, 1), (2, 2), (4, 1)]
    assert [batch.deliveries for batch in batches] == [[0], [1], [2]]


def test_an_encoded_batch_that_is_split_completes_its_delivery_with_its_last_part() -> None:
    acc = accumulator()
    acc.append_encoded(TP, EncodedRecords.of([record() for _ in range(5)]), 9, 0)
    parts = []
    while drained := drain(acc):
        (batch,) = drained
        if batch.count > 1:
            assert acc.failed(batch, ErrorCode.MESSAGE_TOO_LARGE, 0, 0.5) is SendOutcome.SPLIT
        else:
            acc.succeeded(batch)
            parts.append((batch.base_sequence, batch.completes_delivery, batch.deliveries))
    assert parts == [(number, number == 4, [9]) for number in range(5)]
    assert acc.buffered_bytes == 0


def test_retries_are_counted() -> None:
    acc = accumulator(retries=1)
    fill(acc, 1)
    fates = [acc.failed(drain(acc, t)[0], ErrorCode.NETWORK_EXCEPTION, t, 0) for t in (0, 200)]
    assert fates == [SendOutcome.RETRIED, SendOutcome.FAILED]


def test_a_batch_expires_and_a_response_after_that_is_ignored() -> None:
    acc = accumulator()
    fill(acc, 1)
    batch = drain(acc)[0]
    assert acc.next_expiry_ms() == 1000
    assert acc.expire(999) == []
    assert acc.expire(1000) == [batch]
    assert acc.failed(batch, ErrorCode.NETWORK_EXCEPTION, 1001, 0) is SendOutcome.FORGOTTEN
    acc.succeeded(batch)
    assert acc.buffered_bytes == 0


def test_after_a_sent_batch_expires_a_new_epoch_begins_at_sequence_0() -> None:
    acc = accumulator()
    fill(acc, 1)
    drain(acc)
    acc.expire(1000)
    fill(acc, 1, now=1000)
    batch = drain(acc, 1100)[0]
    assert (batch.identity.producer_epoch, batch.base_sequence) == (4, 0)


def unresolved_after_an_expired_one(acc: Accumulator[int]) -> list[Batch[int]]:
    """Return two batches without a response. They were sent after a batch that has expired."""
    known(acc)
    fill(acc, 1)
    fill(acc, 2, now=600)
    sent = [drain(acc, 600)[0] for _ in range(3)]
    for batch in sent:
        acc.failed(batch, ErrorCode.NETWORK_EXCEPTION, 700, 0.5)
    assert acc.expire(1000) == sent[:1]
    return sent[1:]


def test_batches_that_may_be_written_are_resent_unchanged_after_an_expired_one() -> None:
    """The leader wrote all three batches before the connection broke. Under a new epoch, it would
    write two of them again."""
    acc = accumulator()
    first, second = unresolved_after_an_expired_one(acc)
    fill(acc, 1, now=1000)
    for batch, sequence in ((first, 2), (second, 3)):
        assert drain(acc, 1100) == [batch]
        assert (batch.identity, batch.base_sequence) == (IDENTITY, sequence)
        acc.succeeded(batch)
    following = drain(acc, 1100)[0]
    assert (following.identity.producer_epoch, following.base_sequence) == (4, 0)


def test_batches_that_are_missing_after_an_expired_one_are_resent_in_a_new_epoch() -> None:
    """The leader wrote none of the three batches. The response to the first resent batch shows
    this."""
    acc = accumulator()
    first, second = unresolved_after_an_expired_one(acc)
    assert drain(acc, 1100) == [first]
    outcome = acc.failed(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1100, 0.5)
    assert outcome is SendOutcome.RETRIED
    for sequence, batch in enumerate((first, second)):
        assert drain(acc, 1100) == [batch]
        assert batch.identity.producer_epoch == 4
        assert read_header(batch.wire).base_sequence == batch.base_sequence == sequence
        acc.succeeded(batch)


def test_a_batch_too_large_after_an_expired_one_is_split_and_resent_in_a_new_epoch() -> None:
    acc = known(accumulator())
    fill(acc, 1)
    acc.append_encoded(TP, EncodedRecords.of([record(), record()]), 1, 600)
    lost, large = drain(acc, 600)[0], drain(acc, 600)[0]
    assert acc.expire(1000) == [lost]
    assert acc.failed(large, ErrorCode.MESSAGE_TOO_LARGE, 1000, 0.5) is SendOutcome.SPLIT
    for sequence in (0, 1):
        half = drain(acc, 1000)[0]
        assert (half.identity.producer_epoch, half.base_sequence) == (4, sequence)
        acc.succeeded(half)


def test_a_batch_that_cannot_be_encoded_is_dropped_and_uses_no_sequence() -> None:
    acc = known(accumulator())
    acc.append_encoded(TP, EncodedRecords(b"", 1, 1 << 70, 1 << 70), 9, 0)
    fill(acc, 1, tp=OTHER)
    assert [batch.partition for batch in drain(acc)] == [OTHER]
    assert [batch.deliveries for batch, _ in acc.unsendable] == [[9]]
    fill(acc, 1)
    (following,) = drain(acc)
    assert (following.identity, following.base_sequence) == (IDENTITY, 1)


def test_the_memory_of_a_written_batch_is_free_again() -> None:
    size = record_size(record(200))
    acc = accumulator(buffer_memory=2 * size)
    fill(acc, 2)
    assert not acc.has_room(size)
    acc.succeeded(drain(acc)[0])
    assert acc.has_room(size)


def test_while_aborting_nothing_is_retried() -> None:
    acc = accumulator(transactional=True)
    fill(acc, 3)
    sent = drain(acc)[0]
    acc.aborting = True
    assert [batch.deliveries for batch in acc.drop_unsent()] == [[1], [2]]
    assert acc.failed(sent, ErrorCode.NETWORK_EXCEPTION, 0, 0) is SendOutcome.FAILED
    assert acc.oldest_serial() is None
