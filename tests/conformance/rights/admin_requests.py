"""The requests about topics, settings and users that every user sends."""

from __future__ import annotations

from typing import Any

from oncelog_protocol.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_user_scram_credentials,
    elect_leaders,
    incremental_alter_configs,
    list_config_resources,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)
from tests.conformance.rights.templates import (
    BROKER,
    MISSING,
    TOPIC,
    TOPICS,
    User,
    constant,
    template,
)


def _create(*names: str, validate_only: bool) -> Any:
    topics = [create_topics.CreatableTopic(name, 1, 1) for name in names]
    return create_topics.CreateTopicsRequest(topics, validate_only=validate_only)


constant(_create("paid", "orders-new", "pay", validate_only=True), "create_topics")


@template()
def create_a_topic(user: User) -> Any:
    return _create(f"pay-{user.number}", validate_only=not user.changes_topics)


def _delete(*names: str) -> Any:
    states = [delete_topics.DeleteTopicState(name) for name in names]
    return delete_topics.DeleteTopicsRequest(states, list(names), 10_000)


constant(_delete("paid", "orders-none"), "delete_missing_topics")


@template()
def delete_a_topic(user: User) -> Any:
    return _delete(user.deletable())


constant(
    delete_records.DeleteRecordsRequest(
        [
            delete_records.DeleteRecordsTopic(
                name, [delete_records.DeleteRecordsPartition(0, offset)]
            )
            for name, offset in (("pay", 0), ("payments", -1), (MISSING, 0))
        ],
        10_000,
    ),
    "delete_records",
)
constant(
    create_partitions.CreatePartitionsRequest(
        [create_partitions.CreatePartitionsTopic(name, 2, None) for name in ("pay", "orders")],
        10_000,
        validate_only=True,
    ),
    "create_partitions",
)


def _resources(kind: type[Any], **fields: Any) -> list[Any]:
    """Return all topics and the broker as resources of a request about settings."""
    names = [(TOPIC, name) for name in TOPICS] + [(BROKER, "1")]
    return [kind(type_, name, **fields) for type_, name in names]


constant(
    describe_configs.DescribeConfigsRequest(
        _resources(
            describe_configs.DescribeConfigsResource,
            configuration_keys=["retention.ms", "log.retention.ms"],
        )
    ),
    "describe_configs",
)
constant(
    alter_configs.AlterConfigsRequest(
        _resources(alter_configs.AlterConfigsResource)[:-1], validate_only=True
    ),
    "alter_configs",
)
constant(
    incremental_alter_configs.IncrementalAlterConfigsRequest(
        _resources(
            incremental_alter_configs.AlterConfigsResource,
            configs=[incremental_alter_configs.AlterableConfig("retention.ms", 0, "1000")],
        )[:-1],
        validate_only=True,
    ),
    "incremental_alter_configs",
)
constant(list_config_resources.ListConfigResourcesRequest([BROKER]), "list_config_resources", 1)
constant(
    describe_log_dirs.DescribeLogDirsRequest(
        [describe_log_dirs.DescribableLogDirTopic(name, [0]) for name in TOPICS]
    ),
    "describe_log_dirs",
)
constant(
    alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        [
            alter_replica_log_dirs.AlterReplicaLogDir(
                "/nosuch",
                [alter_replica_log_dirs.AlterReplicaLogDirTopic(name, [0]) for name in TOPICS],
            )
        ]
    ),
    "alter_replica_log_dirs",
)
constant(
    update_features.UpdateFeaturesRequest(
        feature_updates=[update_features.FeatureUpdateKey("transaction.version", 2)],
        validate_only=True,
    ),
    "update_features",
    1,
)
constant(
    elect_leaders.ElectLeadersRequest(
        0, [elect_leaders.TopicPartitions(name, [0]) for name in ("pay", "orders")], 10_000
    ),
    "elect_leaders",
)
constant(
    alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        topics=[
            alter_partition_reassignments.ReassignableTopic(
                "pay", [alter_partition_reassignments.ReassignablePartition(0, [1])]
            )
        ]
    ),
    "alter_partition_reassignments",
)
constant(
    list_partition_reassignments.ListPartitionReassignmentsRequest(),
    "list_partition_reassignments",
)
constant(unregister_broker.UnregisterBrokerRequest(7), "unregister_broker")
constant(describe_acls.DescribeAclsRequest(6, None, 1, None, None, 1, 1), "describe_acls")
constant(
    create_acls.CreateAclsRequest(
        [
            create_acls.AclCreation(2, "pay", 3, "no principal", "*", 3, 3),
            create_acls.AclCreation(2, "", 3, "User:x", "*", 3, 3),
        ]
    ),
    "create_acls",
)
constant(
    delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(6, None, 1, None, None, 1, 1)]),
    "delete_acls",
)
constant(
    alter_client_quotas.AlterClientQuotasRequest(
        [
            alter_client_quotas.EntryData(
                [alter_client_quotas.EntityData("user", "absent-1")],
                [alter_client_quotas.OpData("producer_byte_rate", 1_000.0)],
            )
        ],
        validate_only=True,
    ),
    "alter_client_quotas",
)
constant(describe_client_quotas.DescribeClientQuotasRequest([]), "describe_client_quotas")
constant(
    describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        [describe_user_scram_credentials.UserName("absent-1")]
    ),
    "describe_users",
)
constant(
    alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        [alter_user_scram_credentials.ScramCredentialDeletion("absent-1", 1)]
    ),
    "alter_users",
)


constant(
    describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True),
    "describe_cluster",
)
constant(api_versions.ApiVersionsRequest("client", "1"), "api_versions", until=4)
