"""Features, which peers negotiate besides versions (KIP-584), and oncelog's own parts of the
protocol.

Our tags, error codes, record types and API keys start at 10,000, far above Kafka's. A peer that
does not know a tag skips it silently. So before a client sends a tag that the broker must not skip,
it checks that the broker's ApiVersions response announces the tag's feature. A group commit is one
EndTxn request that ends the transactions of many producers of a group, all of them or none.
"""

from __future__ import annotations

from typing import Final

TRANSACTION_VERSION: Final = "transaction.version"
"""0: KIP-98; 1: flexible records in the transaction log; 2: epoch bump with every end (KIP-890)."""

GROUP_VERSION: Final = "group.version"
METADATA_VERSION: Final = "metadata.version"

GROUP_TRANSACTIONS: Final = "oncelog.group.transactions"
"""1: transactions that belong to a consumer group (KIP-447, early draft), and group commit."""

GROUP_TRANSACTIONS_LEVEL: Final = 1

FIRST_OWN_TAG: Final = 10_000
"""Tags, error codes and record types from this number up are ours. Kafka numbers its own from 0."""

OWN_TAGS: Final[dict[str, int]] = {
    # TransactionLogValue v1. Kafka keeps this value in memory only, and loses it on a fail-over.
    "last_producer_epoch": 10_000,
    # InitProducerId v2+, all three fields or none. The names are those of the early draft of
    # KIP-447.
    "consumer_group_id": 10_001,
    "consumer_group_generation": 10_002,
    "assigned_partitions": 10_003,
    # Produce v9+, AddPartitionsToTxn v3+, AddOffsetsToTxn v3+, TxnOffsetCommit v3+, EndTxn v3+: the
    # group. With the tag, the group's coordinator keeps the transaction. Without the tag, the
    # coordinator of the transactional id keeps it.
    "transaction_group_id": 10_004,
    # EndTxn v3+: `members` of the request, the other transactions of a group commit;
    # `refused_member` of the response, the transaction that made the broker refuse the group
    # commit.
    "members": 10_005,
    "refused_member": 10_006,
    # TransactionLogValue v1, once the outcome is decided: the other transactions of the group
    # commit.
    "decided_members": 10_007,
    # DescribeProducers: the records that an open transaction holds back from readers.
    "held_records": 10_030,
    "held_bytes": 10_031,
    # DescribeTransactions: the client that opened the transaction, the time until its timeout, the
    # fenced producers with the reason. TransactionLogValue v1 has the client too, while the
    # transaction is open.
    "client_id": 10_032,
    "client_address": 10_033,
    "time_left_ms": 10_034,
    "fences": 10_035,
    # InitProducerId v2+: an operator ends the open transaction, and no producer begins. Other
    # brokers skip the tag and end the transaction nevertheless, so the client sends the tag to
    # every broker.
    "by_operator": 10_036,
    # ListOffsets v6+: `count_from` of the request, the offset from which the broker counts records;
    # in the response, the number of records that a read_committed reader gets, and the number of
    # records that open transactions hold back.
    "count_from": 10_037,
    "readable_records": 10_038,
    "held_back_records": 10_039,
    # DescribeTransactions and TransactionLogValue v1: the principal of the client, empty for
    # User:ANONYMOUS.
    "principal": 10_040,
    # ListTransactions: the response leaves out ids that the client may not describe. Only clients
    # that may write markers get this tag.
    "leaves_out": 10_041,
    # ApiVersions v3+: the time for which the metadata store has not responded to the broker, and
    # whether the broker therefore leads nothing. Without the tags, the store responds.
    "store_silence_ms": 10_042,
    "is_suspended": 10_043,
    # DescribeCluster: the version of a broker's software.
    "software_version": 10_044,
    # DescribeLogDirs v2+: the followers outside of the ISR of a partition that the broker leads.
    "out_of_sync": 10_045,
}
"""Field name -> tag of every extension. A peer that does not know a tag skips it."""

# ── error codes, record types, key types ─────────────────────────────────────────────────────────

CONCURRENT_PRODUCER_COMMIT_CODE: Final = 10_000
"""From the draft of KIP-447: two producers of a group have transactions with offsets of the same
input partition. The older producer gets this code after its transaction was aborted. The newer
producer gets this code if the older transaction can no longer be aborted."""

TRANSACTION_GROUP_RECORD_TYPE: Final = 10_000
"""A record type of `__transaction_state`: the generation and input partitions of a transactional id
in a group. Kafka's readers skip records of unknown types."""

TRANSACTION_POINTER_RECORD_TYPE: Final = 10_001
"""A record type of `__transaction_state`: the group of a transactional id, in the partition of the
id. The partition of the group has the id's state. Only brokers of a cluster with several
brokers write it."""

COORDINATOR_CALL_KEY: Final = 10_000
"""The key of the API CoordinatorCall. Brokers send it to each other, and ApiVersions does not list
it."""

TRANSACTION_GROUP_KEY_TYPE: Final = 2
"""The key type in FindCoordinator v1 to v5 for the coordinator of a group's transactions. From v6
on, key type 2 means share groups, as in Kafka."""
