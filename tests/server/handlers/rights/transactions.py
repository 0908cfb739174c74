"""The rights of the APIs about transactions."""

from __future__ import annotations

from typing import Any, Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    coordinator_call,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from oncelog_server.security.resources import Operation
from tests.server.handlers.rights.case import (
    GROUP,
    ID,
    NOTHING,
    OPEN_ID,
    TOPIC,
    Case,
    Need,
    Outcome,
    always,
    at,
    cluster,
    group,
    hidden,
    need,
    topic,
    transactional_id,
)

WRITE, DESCRIBE, READ = Operation.WRITE, Operation.DESCRIBE, Operation.READ
UNKNOWN_PRODUCER: Final = 1_000_000
UNKNOWN: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
TOPICS: Final = [add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])]


def init(name: str | None, **more: Any) -> Any:
    return always(init_producer_id.InitProducerIdRequest(name, 60_000, **more))


IDEMPOTENT: Final = init(None)
ADDED: Final = always(
    add_partitions_to_txn.AddPartitionsToTxnRequest(
        [
            add_partitions_to_txn.AddPartitionsToTxnTransaction(
                ID, UNKNOWN_PRODUCER, 0, True, TOPICS
            )
        ],
        ID,
        UNKNOWN_PRODUCER,
        0,
        TOPICS,
    )
)
GROUP_ADDED: Final = always(
    add_offsets_to_txn.AddOffsetsToTxnRequest(ID, UNKNOWN_PRODUCER, 0, GROUP)
)
ENDED: Final = always(end_txn.EndTxnRequest(ID, UNKNOWN_PRODUCER, 0, True))
ENDED_TOGETHER: Final = always(
    end_txn.EndTxnRequest(
        ID, UNKNOWN_PRODUCER, 0, True, GROUP, [end_txn.EndTxnMember("member", UNKNOWN_PRODUCER, 0)]
    )
)
MARKED: Final = always(
    write_txn_markers.WriteTxnMarkersRequest(
        [
            write_txn_markers.WritableTxnMarker(
                UNKNOWN_PRODUCER, 0, False, [write_txn_markers.WritableTxnMarkerTopic(TOPIC, [0])]
            )
        ]
    )
)
CALLED: Final = always(
    coordinator_call.CoordinatorCallRequest(
        coordinator_call.CoordinatorCall(coordinator_call.Operation.CLAIM, ID, GROUP)
    )
)
DESCRIBED: Final = always(describe_transactions.DescribeTransactionsRequest([OPEN_ID]))
LISTED: Final = always(list_transactions.ListTransactionsRequest(["Ongoing"]))


def committed(topic_id: bytes) -> Any:
    partitions = [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 7)]
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(TOPIC, topic_id, partitions)]
    return txn_offset_commit.TxnOffsetCommitRequest(ID, GROUP, UNKNOWN_PRODUCER, 0, topics=topics)


def described(response: Any) -> Outcome:
    """Return the error codes, and the topics of the transactions."""
    states = response.transaction_states
    codes = {state.error_code for state in states if state.error_code}
    return frozenset(codes | {topic.topic for state in states for topic in state.topics})


def listed(response: Any) -> Outcome:
    return frozenset(state.transactional_id for state in response.transaction_states)


K = ApiKey
OF_CLIENT: Final = "results_by_topic_v3_and_below.results_by_partition.partition_error_code"
OF_BROKER: Final = "results_by_transaction.topic_results.results_by_partition.partition_error_code"
COMMITTED: Final = "topics.partitions"
MARKERS: Final = "markers.topics.partitions"
ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CASES: Final = (
    Case(K.INIT_PRODUCER_ID, init(ID), (need(transactional_id(WRITE)),)),
    Case(K.INIT_PRODUCER_ID, IDEMPOTENT, (need(cluster(Operation.IDEMPOTENT_WRITE)),)),
    Case(
        K.INIT_PRODUCER_ID,
        IDEMPOTENT,
        (Need(topic(WRITE), at("", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)),),
    ),
    Case(
        K.INIT_PRODUCER_ID,
        init(ID, enable_2pc=True),
        (need(transactional_id(WRITE)), need(transactional_id(Operation.TWO_PHASE_COMMIT))),
        versions=range(6, 7),
    ),
    Case(
        K.INIT_PRODUCER_ID,
        init(ID, keep_prepared_txn=True),
        (need(transactional_id(WRITE)), need(transactional_id(Operation.TWO_PHASE_COMMIT))),
        versions=range(6, 7),
    ),
    # A producer of a consumer group, which only oncelog has.
    Case(
        K.INIT_PRODUCER_ID,
        init(
            ID,
            consumer_group_id=GROUP,
            consumer_group_generation=1,
            assigned_partitions=[init_producer_id.AssignedTopic(TOPIC, [0])],
        ),
        (need(transactional_id(WRITE)), need(group(READ))),
        versions=range(2, 7),
    ),
    Case(
        K.ADD_PARTITIONS_TO_TXN,
        ADDED,
        (
            Need(transactional_id(WRITE), frozenset({(OF_CLIENT, ID_DENIED)})),
            Need(topic(WRITE), frozenset({(OF_CLIENT, TOPIC_DENIED)})),
        ),
        frozenset({(OF_CLIENT, UNKNOWN)}),
        range(4),
    ),
    Case(
        K.ADD_PARTITIONS_TO_TXN,
        ADDED,
        (need(cluster(Operation.CLUSTER_ACTION)),),
        frozenset({(OF_BROKER, UNKNOWN)}),
        range(4, 6),
    ),
    Case(
        K.ADD_OFFSETS_TO_TXN,
        GROUP_ADDED,
        (need(transactional_id(WRITE)), need(group(READ))),
        at("", UNKNOWN),
    ),
    Case(K.END_TXN, ENDED, (need(transactional_id(WRITE)),), at("", UNKNOWN)),
    Case(
        K.END_TXN,
        ENDED_TOGETHER,
        (need(transactional_id(WRITE)), need(transactional_id(WRITE, "member"))),
        at("", UNKNOWN),
        range(3, 6),
    ),
    Case(K.WRITE_TXN_MARKERS, MARKED, (need(cluster(Operation.CLUSTER_ACTION), MARKERS),)),
    Case(K.WRITE_TXN_MARKERS, MARKED, (need(cluster(Operation.ALTER), MARKERS),)),
    # A single broker serves no calls of other brokers.
    Case(
        K.COORDINATOR_CALL,
        CALLED,
        (need(cluster(Operation.CLUSTER_ACTION)),),
        at("", ErrorCode.UNSUPPORTED_VERSION),
    ),
    Case(
        K.TXN_OFFSET_COMMIT,
        committed,
        (
            need(transactional_id(WRITE), COMMITTED),
            need(group(READ), COMMITTED),
            need(topic(READ), COMMITTED),
        ),
        at(COMMITTED, UNKNOWN),
    ),
    Case(
        K.DESCRIBE_TRANSACTIONS,
        DESCRIBED,
        (
            Need(transactional_id(DESCRIBE, OPEN_ID), frozenset({ID_DENIED})),
            hidden(topic(DESCRIBE)),
        ),
        frozenset({TOPIC}),
        outcome=described,
    ),
    Case(
        K.LIST_TRANSACTIONS,
        LISTED,
        (Need(transactional_id(DESCRIBE, OPEN_ID), NOTHING),),
        frozenset({OPEN_ID}),
        outcome=listed,
    ),
)
