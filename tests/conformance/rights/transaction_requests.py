"""The requests about transactions that every user sends."""

from __future__ import annotations

from typing import Any

from oncelog_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from tests.conformance.rights.templates import (
    IDS,
    MISSING,
    NAMES,
    TOPICS,
    UNKNOWN_PRODUCER,
    User,
    constant,
    template,
)

constant(init_producer_id.InitProducerIdRequest(None, 60_000), "init_idempotent")
for _id in IDS:
    constant(init_producer_id.InitProducerIdRequest(_id, 60_000), f"init_{_id}")
constant(
    init_producer_id.InitProducerIdRequest("pay", 60_000, enable_2pc=True), "init_two_phase", 6
)


def _added(*names: str) -> list[add_partitions_to_txn.AddPartitionsToTxnTopic]:
    return [add_partitions_to_txn.AddPartitionsToTxnTopic(name, [0]) for name in names]


for _id, _names in (("pay", NAMES), ("orders", (*TOPICS, "__consumer_offsets"))):
    constant(
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=_id,
            v3_and_below_producer_id=UNKNOWN_PRODUCER,
            v3_and_below_topics=_added(*_names),
        ),
        f"add_partitions_{_id}",
        until=3,
    )
constant(
    add_partitions_to_txn.AddPartitionsToTxnRequest(
        [
            add_partitions_to_txn.AddPartitionsToTxnTransaction(
                "pay", UNKNOWN_PRODUCER, 0, True, _added("pay", "orders")
            )
        ]
    ),
    "add_partitions_of_brokers",
    since=4,
)
constant(
    add_offsets_to_txn.AddOffsetsToTxnRequest("pay", UNKNOWN_PRODUCER, 0, "orders"), "add_offsets"
)
for _id in IDS:
    constant(end_txn.EndTxnRequest(_id, UNKNOWN_PRODUCER, 0, True), f"end_{_id}")
constant(
    write_txn_markers.WriteTxnMarkersRequest(
        [
            write_txn_markers.WritableTxnMarker(
                UNKNOWN_PRODUCER,
                0,
                False,
                [write_txn_markers.WritableTxnMarkerTopic(MISSING, [0])],
                0,
            )
        ]
    ),
    "write_markers",
)


@template(until=5)
def commit_in_a_transaction(user: User) -> Any:
    return txn_offset_commit.TxnOffsetCommitRequest(
        "pay",
        "pay",
        UNKNOWN_PRODUCER,
        0,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name, partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(0, 7)]
            )
            for name in NAMES
        ],
    )


constant(
    describe_producers.DescribeProducersRequest(
        [describe_producers.TopicRequest(name, [0]) for name in NAMES]
    ),
    "describe_producers",
)
constant(describe_transactions.DescribeTransactionsRequest([*IDS, "paid"]), "describe_transactions")
constant(list_transactions.ListTransactionsRequest(), "list_transactions")
