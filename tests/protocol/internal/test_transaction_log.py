"""The records of `__transaction_state`, against bytes of Apache Kafka."""

from __future__ import annotations

import pytest

from oncelog_protocol.internal.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    decode_transaction_log_key,
    decode_transaction_log_value,
    encode_transaction_log_key,
    encode_transaction_log_value,
)
from tests.protocol.internal.golden import (
    EMPTY_TRANSACTION_V0,
    EMPTY_TRANSACTION_V1,
    TRANSACTION,
    TRANSACTION_KEY,
)

FULL = TransactionLogValue(
    producer_id=2000,
    previous_producer_id=1999,
    next_producer_id=2001,
    producer_epoch=3,
    next_producer_epoch=4,
    transaction_timeout_ms=60_000,
    transaction_status=TransactionState.ONGOING,
    transaction_partitions=[
        PartitionsSchema(topic="invoices", partition_ids=[0, 7]),
        PartitionsSchema(topic="shipments", partition_ids=[1]),
    ],
    transaction_last_update_timestamp_ms=1709328801657,
    transaction_start_timestamp_ms=1709328801524,
    client_transaction_version=2,
)
EMPTY = TransactionLogValue(
    producer_id=2000,
    transaction_timeout_ms=60_000,
    transaction_status=TransactionState.EMPTY,
    transaction_partitions=None,
    transaction_last_update_timestamp_ms=1709328801657,
    transaction_start_timestamp_ms=-1,
)


def test_the_key() -> None:
    key = TransactionLogKey(transactional_id="myProducer")
    assert encode_transaction_log_key(key) == TRANSACTION_KEY
    assert decode_transaction_log_key(TRANSACTION_KEY) == key


def test_a_value_with_every_tagged_field() -> None:
    assert encode_transaction_log_value(FULL) == TRANSACTION
    assert decode_transaction_log_value(TRANSACTION) == FULL


def test_an_empty_transaction_in_both_versions() -> None:
    assert encode_transaction_log_value(EMPTY, version=0) == EMPTY_TRANSACTION_V0
    assert encode_transaction_log_value(EMPTY) == EMPTY_TRANSACTION_V1
    assert decode_transaction_log_value(EMPTY_TRANSACTION_V0) == EMPTY
    assert decode_transaction_log_value(EMPTY_TRANSACTION_V1) == EMPTY


def test_version_0_has_no_tagged_fields() -> None:
    read = decode_transaction_log_value(encode_transaction_log_value(FULL, version=0))
    assert (read.next_producer_id, read.client_transaction_version) == (-1, 0)
    assert read.transaction_partitions == FULL.transaction_partitions


@pytest.mark.parametrize("epoch", [0, 1, 32766])
def test_our_own_tag_comes_after_all_of_kafkas(epoch: int) -> None:
    """Kafka's reader skips our tag, because Kafka has no tag with this number."""
    value = decode_transaction_log_value(TRANSACTION)
    value.last_producer_epoch = epoch
    raw = encode_transaction_log_value(value)
    tags = len(TRANSACTION) - (1 + 2 * 10 + 2 * 4)  # count of tags, two int64, two int16
    assert TRANSACTION[tags:][:1] == b"\4"
    ours = b"\x90\x4e" + b"\2" + epoch.to_bytes(2, "big")
    assert raw == TRANSACTION[:tags] + b"\5" + TRANSACTION[tags + 1 :] + ours
    assert decode_transaction_log_value(raw).last_producer_epoch == epoch


def test_unknown_tagged_fields_of_a_later_kafka_are_skipped() -> None:
    later = EMPTY_TRANSACTION_V1[:-1] + b"\1" + b"\x63" + b"\3" + b"abc"
    assert decode_transaction_log_value(later) == EMPTY


def test_states_have_kafkas_numbers_and_names() -> None:
    names = {state.value: state.kafka_name for state in TransactionState}
    assert names == {
        0: "Empty",
        1: "Ongoing",
        2: "PrepareCommit",
        3: "PrepareAbort",
        4: "CompleteCommit",
        5: "CompleteAbort",
        6: "Dead",
        7: "PrepareEpochFence",
    }
