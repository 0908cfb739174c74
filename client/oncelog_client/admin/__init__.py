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

__all__ = [
    "Admin",
    "AlterConfigOp",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "GroupDescription",
    "GroupListing",
    "LogDirDescription",
    "MemberDescription",
    "NewTopic",
    "OffsetSpec",
    "ReplicaInfo",
    "ResourceType",
    "TopicDescription",
    "TopicListing",
]
