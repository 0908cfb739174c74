"""Features, which peers negotiate besides versions (KIP-584), and oncelog's own parts of the
protocol.

Our tags, error codes and record types start at 10,000, far above Kafka's. A client uses them only
if their feature is announced in ApiVersions: a peer that does not know a tag skips it silently.
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
"""Tags, error codes and record types from here up are ours; Kafka numbers its own from 0."""

OWN_TAGS: Final[dict[str, int]] = {
    # TransactionLogValue v1: Kafka keeps it in memory only, and forgets it on a fail-over.
    "last_producer_epoch": 10_000,
    # InitProducerId v2+, all three or none: as the early draft of KIP-447 names them.
    "consumer_group_id": 10_001,
    "consumer_group_generation": 10_002,
    "assigned_partitions": 10_003,
    # Produce v9+, AddPartitionsToTxn v3+, AddOffsetsToTxn v3+, TxnOffsetCommit v3+, EndTxn v3+: the
    # group; its coordinator has the transaction. Without the tag, the coordinator of the
    # transactional id has it.
    "transaction_group_id": 10_004,
    # EndTxn v3+: the other transactions of a group commit, and the one because of which it was
    # refused.
    "members": 10_005,
    "refused_member": 10_006,
    # TransactionLogValue v1, from the decision on: the members of that request.
    "decided_members": 10_007,
    # DescribeProducers: what an open transaction keeps from readers.
    "held_records": 10_030,
    "held_bytes": 10_031,
    # DescribeTransactions: the client that opened it, the time it has left, the producers that were
    # fenced and why. TransactionLogValue v1 has the client too, while it is open.
    "client_id": 10_032,
    "client_address": 10_033,
    "time_left_ms": 10_034,
    "fences": 10_035,
    # InitProducerId v2+: an operator ends the open transaction, and no producer begins. It is only
    # information, and other brokers skip it, so it is sent to every broker.
    "by_operator": 10_036,
    # ListOffsets v6+: the offset from which the broker counts records; the number that a
    # read_committed reader gets from there, and the number held back from it.
    "count_from": 10_037,
    "readable_records": 10_038,
    "held_back_records": 10_039,
}
"""Field name -> tag of every extension. A peer that does not know a tag skips it."""

# ── error codes, record types, key types ─────────────────────────────────────────────────────────

CONCURRENT_PRODUCER_COMMIT_CODE: Final = 10_000
"""The draft's: another producer has committed offsets of an input partition meanwhile."""

TRANSACTION_GROUP_RECORD_TYPE: Final = 10_000
"""In `__transaction_state`: the generation and input partitions of a transactional id in a group.
Kafka's readers skip records of unknown types."""

TRANSACTION_GROUP_KEY_TYPE: Final = 2
"""FindCoordinator v1-v5: the transaction *group* coordinator. From v6 on 2 means share groups."""
