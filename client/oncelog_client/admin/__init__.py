"""The admin client and the values it takes and gives."""

from __future__ import annotations

from .client import Admin, OffsetSpec
from .descriptions import (
    AlterConfigOp,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    GroupDescription,
    GroupListing,
    LogDirDescription,
    MemberDescription,
    NewTopic,
    ReplicaInfo,
    ResourceType,
    TopicDescription,
    TopicListing,
)
from .group_lag import PartitionLag
from .transaction_descriptions import (
    AbortTransactionSpec,
    Fence,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)

__all__ = [
    "AbortTransactionSpec",
    "Admin",
    "AlterConfigOp",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "Fence",
    "GroupDescription",
    "GroupListing",
    "LogDirDescription",
    "MemberDescription",
    "NewTopic",
    "OffsetSpec",
    "PartitionLag",
    "ProducerState",
    "ReplicaInfo",
    "ResourceType",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
]
