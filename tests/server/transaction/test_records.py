"""The records of `__transaction_state` as the server writes them, compared with the schema's own
codec (TransactionLogValue v1)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oncelog_protocol.internal.transaction_log import (
    DecidedMember,
    PartitionsSchema,
    TransactionLogValue,
    TransactionState,
    decode_transaction_log_value,
    encode_transaction_log_value,
)
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.metadata import (
    GroupedTransaction,
    TransactionMetadata,
    client_in,
    from_value,
    to_record,
)

IDS = st.integers(-1, 2**63 - 1)
EPOCHS = st.integers(-1, 2**15 - 1)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "ü" * 80]), st.integers(0, 300))
MEMBERS = st.builds(GroupedTransaction, st.text(max_size=9), IDS, EPOCHS)

METADATA = st.builds(
    TransactionMetadata,
    transactional_id=st.text(min_size=1, max_size=200),
    producer_id=IDS,
    producer_epoch=EPOCHS,
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from(TransactionState),
    partitions=st.frozensets(PARTITIONS, max_size=9),
    last_producer_epoch=EPOCHS,
    previous_producer_id=IDS,
    next_producer_id=IDS,
    start_ms=IDS,
    last_update_ms=IDS,
    client_transaction_version=st.integers(0, 2),
    next_producer_epoch=EPOCHS,
    decided_members=st.lists(MEMBERS, max_size=3).map(tuple),
)


def schema_value(metadata: TransactionMetadata) -> TransactionLogValue:
    topics = sorted({partition.topic for partition in metadata.partitions})
    return TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        next_producer_epoch=metadata.next_producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None
        if metadata.state is TransactionState.EMPTY
        else [
            PartitionsSchema(name, sorted(p.partition for p in metadata.partitions if p[0] == name))
            for name in topics
        ],
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_transaction_version,
        last_producer_epoch=metadata.last_producer_epoch,
        decided_members=[
            DecidedMember(*decided_member) for decided_member in metadata.decided_members
        ],
    )


@given(METADATA)
def test_a_value_has_the_bytes_of_its_schema(metadata: TransactionMetadata) -> None:
    assert to_record(metadata).value == encode_transaction_log_value(schema_value(metadata))


@given(METADATA)
def test_a_written_value_is_read_back(metadata: TransactionMetadata) -> None:
    if metadata.state is TransactionState.EMPTY:
        metadata = replace(metadata, partitions=frozenset())
    value = to_record(metadata).value
    assert value is not None
    read = from_value(metadata.transactional_id, decode_transaction_log_value(value))
    assert read == metadata


@given(
    METADATA,
    st.builds(Client, *[st.text(max_size=300), st.text(max_size=40), st.text(max_size=300)]),
)
def test_the_client_of_a_transaction_is_after_all_fields_of_kafka(
    metadata: TransactionMetadata, client: Client
) -> None:
    """The bytes equal those of the schema's codec, and decoding them gives the client. A long
    client id or principal is cut."""
    value = schema_value(metadata)
    value.client_id, value.client_address = client.client_id[:256], client.client_address
    value.principal = client.principal[:256]
    written = to_record(metadata, client).value
    assert written is not None
    assert written == encode_transaction_log_value(value)
    kept = Client(value.client_id, value.client_address, value.principal)
    expected = kept if any(kept) else None
    assert client_in(decode_transaction_log_value(written)) == expected
    assert to_record(metadata).value == encode_transaction_log_value(schema_value(metadata))
