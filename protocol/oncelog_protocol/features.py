"""Names of the features a cluster finalizes (KIP-584), and the tagged fields that are our own."""

from __future__ import annotations

from typing import Final

TRANSACTION_VERSION: Final = "transaction.version"
"""0: KIP-98; 1: flexible records in the transaction log; 2: epoch bump with every end (KIP-890)."""

GROUP_VERSION: Final = "group.version"
METADATA_VERSION: Final = "metadata.version"

FIRST_OWN_TAG: Final = 10_000
"""Tags from here up are ours; Kafka numbers its own from 0."""

OWN_TAGS: Final[dict[str, int]] = {
    # DescribeProducers: what an open transaction keeps from readers.
    "held_records": 10_030,
    "held_bytes": 10_031,
    # DescribeTransactions: who opened it, how long it may take yet, who was refused and why.
    "client_id": 10_032,
    "client_address": 10_033,
    "time_left_ms": 10_034,
    "fences": 10_035,
    # InitProducerId: an operator ends what is open, no producer begins.
    "by_operator": 10_036,
}
"""Field name -> tag of every extension. Whoever does not know one skips it."""
