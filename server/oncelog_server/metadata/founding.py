"""The first records of a new cluster, and random ids for topics and clusters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from oncelog_protocol.features import (
    GROUP_TRANSACTIONS,
    GROUP_TRANSACTIONS_LEVEL,
    TRANSACTION_VERSION,
)
from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.store import Created, MetadataStore, Put
from oncelog_server.settings.model import Settings

SUPPORTED_FEATURES: Final[Mapping[str, tuple[int, int]]] = {TRANSACTION_VERSION: (0, 2)}
# The feature levels of a new cluster.
NEW_LEVELS: Final = {name: highest for name, (_, highest) in SUPPORTED_FEATURES.items()}


def features_of(settings: Settings) -> Mapping[str, tuple[int, int]]:
    """Return the features that a broker registers. If the cluster may have other brokers,
    `group.transactions.enable` adds a feature: the cluster serves the transactions of groups only
    if all brokers have this feature."""
    if not (settings.has_other_brokers and settings.group_transactions_enable):
        return SUPPORTED_FEATURES
    level = GROUP_TRANSACTIONS_LEVEL
    return {**SUPPORTED_FEATURES, GROUP_TRANSACTIONS: (level, level)}


def random_uuid() -> bytes:
    """Return a random topic or cluster id. The text of the id does not begin with `-`, because a
    command line would take such an id for an option (Kafka's Uuid.randomUuid)."""
    while True:
        drawn = bytearray(os.urandom(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        if not uuid_to_string(bytes(drawn)).startswith("-"):
            return bytes(drawn)


class NoCluster(ValueError):
    """The store has no cluster."""


async def found_cluster(store: MetadataStore, cluster_id: str) -> None:
    """Write the first records of a new cluster. An existing cluster stays as it is, and so does one
    that is being restored.

    Raises OSError.
    """
    await store.txn(
        [Created(records.CLUSTER, 0), Created(records.RESTORED, 0)],
        [
            Put(records.CLUSTER, records.encode(records.ClusterRecord(cluster_id))),
            Put(records.FEATURES, records.encode(records.FeaturesRecord(NEW_LEVELS))),
        ],
    )
