"""The admin client with its arguments and results.

A name is loaded at first use, because a command line needs few names.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers take TYPE_CHECKING for true. Importing it from `typing` would take most of the time
# of this module's import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from oncelog_client.core.acl_bindings import (
        AccessControlEntry,
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AclResourceType,
        PatternType,
        ResourcePattern,
    )

    from .broker_descriptions import (
        BrokerCondition,
        ClusterDescription,
        EligibleReplicas,
        LogDirDescription,
        ReplicaInfo,
    )
    from .client import Admin, OffsetSpec
    from .config_descriptions import (
        AlterConfigOp,
        ConfigEntry,
        ConfigResource,
        ConfigSource,
        ConfigSynonym,
        ResourceType,
    )
    from .elections import ElectionType
    from .group_descriptions import GroupDescription, GroupListing, MemberDescription
    from .group_lag import PartitionLag
    from .quota_descriptions import AnyName, ClientQuotaEntity, ClientQuotaFilter
    from .reassignment_descriptions import PartitionReassignment
    from .scram_credentials import (
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from .topic_descriptions import NewTopic, TopicDescription, TopicListing
    from .transaction_descriptions import (
        AbortTransactionSpec,
        Fence,
        ProducerState,
        TransactionDescription,
        TransactionListing,
    )

__all__ = [
    "AbortTransactionSpec",
    "AccessControlEntry",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AclResourceType",
    "Admin",
    "AlterConfigOp",
    "AnyName",
    "BrokerCondition",
    "ClientQuotaEntity",
    "ClientQuotaFilter",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ElectionType",
    "EligibleReplicas",
    "Fence",
    "GroupDescription",
    "GroupListing",
    "LogDirDescription",
    "MemberDescription",
    "NewTopic",
    "OffsetSpec",
    "PartitionLag",
    "PartitionReassignment",
    "PatternType",
    "ProducerState",
    "ReplicaInfo",
    "ResourcePattern",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramMechanism",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]

_ACLS = "oncelog_client.core.acl_bindings"

# Name -> the module that has it, by its full name or its name in this package.
_HOMES = {
    "AbortTransactionSpec": "transaction_descriptions",
    "AccessControlEntry": _ACLS,
    "AclBinding": _ACLS,
    "AclBindingFilter": _ACLS,
    "AclOperation": _ACLS,
    "AclPermissionType": _ACLS,
    "AclResourceType": _ACLS,
    "Admin": "client",
    "AlterConfigOp": "config_descriptions",
    "AnyName": "quota_descriptions",
    "BrokerCondition": "broker_descriptions",
    "ClientQuotaEntity": "quota_descriptions",
    "ClientQuotaFilter": "quota_descriptions",
    "ClusterDescription": "broker_descriptions",
    "ConfigEntry": "config_descriptions",
    "ConfigResource": "config_descriptions",
    "ConfigSource": "config_descriptions",
    "ConfigSynonym": "config_descriptions",
    "ElectionType": "elections",
    "EligibleReplicas": "broker_descriptions",
    "Fence": "transaction_descriptions",
    "GroupDescription": "group_descriptions",
    "GroupListing": "group_descriptions",
    "LogDirDescription": "broker_descriptions",
    "MemberDescription": "group_descriptions",
    "NewTopic": "topic_descriptions",
    "OffsetSpec": "client",
    "PartitionLag": "group_lag",
    "PartitionReassignment": "reassignment_descriptions",
    "PatternType": _ACLS,
    "ProducerState": "transaction_descriptions",
    "ReplicaInfo": "broker_descriptions",
    "ResourcePattern": _ACLS,
    "ResourceType": "config_descriptions",
    "ScramCredentialInfo": "scram_credentials",
    "ScramMechanism": "scram_credentials",
    "TopicDescription": "topic_descriptions",
    "TopicListing": "topic_descriptions",
    "TransactionDescription": "transaction_descriptions",
    "TransactionListing": "transaction_descriptions",
    "UserScramCredentialDeletion": "scram_credentials",
    "UserScramCredentialUpsertion": "scram_credentials",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = home if "." in home else f"{__name__}.{home}"
    found: object = getattr(import_module(module), name)
    globals()[name] = found
    return found
