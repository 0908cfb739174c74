"""One small request of each API, about a topic, a group or a transactional id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from oncelog_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    coordinator_call,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord


def batch(producer_id: int) -> bytearray:
    epoch = 0 if producer_id >= 0 else -1
    return build_batch(
        [NewRecord(1, None, b"v")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=epoch,
        is_transactional=producer_id >= 0,
    )


def produce_request(producer_id: int, transactional_id: str | None) -> Callable[[str], Any]:
    def request(topic: str) -> Any:
        data = [produce.PartitionProduceData(0, batch(producer_id))]
        topics = [produce.TopicProduceData(topic, partition_data=data)]
        return produce.ProduceRequest(transactional_id, -1, 1_000, topics)

    return request


def fetch_request(replica_id: int) -> Callable[[str], Any]:
    def request(topic: str) -> Any:
        topics = [fetch.FetchTopic(topic, partitions=[fetch.FetchPartition(0)])]
        return fetch.FetchRequest(replica_id=replica_id, topics=topics)

    return request


def list_offsets_request(topic: str) -> Any:
    partitions = [list_offsets.ListOffsetsPartition(0)]
    topics = [list_offsets.ListOffsetsTopic(topic, partitions)]
    return list_offsets.ListOffsetsRequest(topics=topics)


def epoch_request(topic: str) -> Any:
    partitions = [offset_for_leader_epoch.OffsetForLeaderPartition(0)]
    topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic, partitions)]
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=topics)


def delete_records_request(topic: str) -> Any:
    partitions = [delete_records.DeleteRecordsPartition(0)]
    return delete_records.DeleteRecordsRequest(
        [delete_records.DeleteRecordsTopic(topic, partitions)]
    )


def commit_request(topic: str) -> Any:
    partitions = [offset_commit.OffsetCommitRequestPartition(0, 7)]
    topics = [offset_commit.OffsetCommitRequestTopic(topic, partitions=partitions)]
    return offset_commit.OffsetCommitRequest("group", topics=topics)


def txn_commit_request(topic: str) -> Any:
    partitions = [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 7)]
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(topic, partitions=partitions)]
    return txn_offset_commit.TxnOffsetCommitRequest("id", "group", 1, 0, topics=topics)


def offset_fetch_request(topic: str) -> Any:
    topics = [offset_fetch.OffsetFetchRequestTopics(topic, partition_indexes=[0])]
    groups = [offset_fetch.OffsetFetchRequestGroup("group", topics=topics)]
    return offset_fetch.OffsetFetchRequest(groups=groups)


def offset_delete_request(topic: str) -> Any:
    partitions = [offset_delete.OffsetDeleteRequestPartition(0)]
    topics = [offset_delete.OffsetDeleteRequestTopic(topic, partitions)]
    return offset_delete.OffsetDeleteRequest("group", topics)


def add_by_client(topic: str) -> Any:
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_producer_id=1,
        v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(topic, [0])],
    )


def add_by_broker(topic: str) -> Any:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(topic, [0])]
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction("id", 1, 0, False, topics)
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])


def markers_request(topic: str) -> Any:
    topics = [write_txn_markers.WritableTxnMarkerTopic(topic, [0])]
    marker = write_txn_markers.WritableTxnMarker(1, 0, False, topics, 0)
    return write_txn_markers.WriteTxnMarkersRequest([marker])


def coordinator_call_request(topic: str) -> Any:
    call = coordinator_call.CoordinatorCall(coordinator_call.Operation.CLAIM, "id", "group")
    return coordinator_call.CoordinatorCallRequest(call)


def coordinator_request(key_type: int) -> Callable[[str], Any]:
    return lambda topic: find_coordinator.FindCoordinatorRequest(
        key_type=key_type, coordinator_keys=["a"]
    )


def configs_request(resource_type: int) -> Callable[[str], Any]:
    def request(topic: str) -> Any:
        name = topic if resource_type == TOPIC_SETTINGS else "1"
        resource = describe_configs.DescribeConfigsResource(resource_type, name)
        return describe_configs.DescribeConfigsRequest([resource])

    return request


def always(request: Any) -> Callable[[str], Any]:
    return lambda topic: request


TOPIC_SETTINGS: Final = 2
BROKER_SETTINGS: Final = 4
LOGGERS: Final = 8
GROUP_SETTINGS: Final = 32


def metadata_request(topic: str | None) -> Any:
    """Return a request for a topic, or with None for all topics."""
    topics = None if topic is None else [metadata.MetadataRequestTopic(name=topic)]
    return metadata.MetadataRequest(topics)


def describe_topic_request(topic: str) -> Any:
    topics = [describe_topic_partitions.TopicRequest(topic)]
    return describe_topic_partitions.DescribeTopicPartitionsRequest(topics)


def describe_producers_request(topic: str) -> Any:
    topics = [describe_producers.TopicRequest(topic, [0])]
    return describe_producers.DescribeProducersRequest(topics)


def list_named_moves_request(topic: str) -> Any:
    topics = [list_partition_reassignments.ListPartitionReassignmentsTopics(topic, [0])]
    return list_partition_reassignments.ListPartitionReassignmentsRequest(topics=topics)


def create_request(topic: str) -> Any:
    return create_topics.CreateTopicsRequest([create_topics.CreatableTopic(topic, 1, 1)])


def delete_request(topic: str) -> Any:
    return delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(topic)])


def create_partitions_request(topic: str) -> Any:
    topics = [create_partitions.CreatePartitionsTopic(topic, 3)]
    return create_partitions.CreatePartitionsRequest(topics)


def alter_request(topic: str) -> Any:
    resource = alter_configs.AlterConfigsResource(TOPIC_SETTINGS, topic)
    return alter_configs.AlterConfigsRequest([resource])


def alter_incrementally_request(topic: str) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(TOPIC_SETTINGS, topic)
    return incremental_alter_configs.IncrementalAlterConfigsRequest([resource])


describe_log_dirs_request = always(describe_log_dirs.DescribeLogDirsRequest())
join_request = always(join_group.JoinGroupRequest("group"))
sync_request = always(
    sync_group.SyncGroupRequest("group", protocol_type="consumer", protocol_name="range")
)
heartbeat_request = always(heartbeat.HeartbeatRequest("group"))
leave_request = always(leave_group.LeaveGroupRequest("group"))
list_groups_request = always(list_groups.ListGroupsRequest())
describe_groups_request = always(describe_groups.DescribeGroupsRequest(["group"]))
delete_groups_request = always(delete_groups.DeleteGroupsRequest(["group"]))
idempotent_request = always(init_producer_id.InitProducerIdRequest(None))
transactional_request = always(init_producer_id.InitProducerIdRequest("id", 60_000))
two_phase_request = always(init_producer_id.InitProducerIdRequest("id", 60_000, enable_2pc=True))
joining_request = always(
    init_producer_id.InitProducerIdRequest(
        "id",
        60_000,
        consumer_group_id="g",
        consumer_group_generation=1,
        assigned_partitions=[init_producer_id.AssignedTopic("in", [0])],
    )
)
keeping_request = always(
    init_producer_id.InitProducerIdRequest("id", 60_000, keep_prepared_txn=True)
)
add_offsets_request = always(add_offsets_to_txn.AddOffsetsToTxnRequest("id", 1, 0, "group"))
describe_transactions_request = always(describe_transactions.DescribeTransactionsRequest(["id"]))
list_transactions_request = always(list_transactions.ListTransactionsRequest())
end_request = always(end_txn.EndTxnRequest("id", 1, 0, True))


def describe_acls_request(topic: str) -> Any:
    return describe_acls.DescribeAclsRequest(1, None, 1, None, None, 1, 1)


def create_acls_request(topic: str) -> Any:
    return create_acls.CreateAclsRequest(
        [create_acls.AclCreation(2, topic, 3, "User:x", "*", 3, 3)]
    )


def delete_acls_request(topic: str) -> Any:
    return delete_acls.DeleteAclsRequest(
        [delete_acls.DeleteAclsFilter(1, None, 1, None, None, 1, 1)]
    )


def describe_quotas_request(topic: str) -> Any:
    return describe_client_quotas.DescribeClientQuotasRequest([])


def alter_quotas_request(topic: str) -> Any:
    entity = [alter_client_quotas.EntityData("user", "x")]
    ops = [alter_client_quotas.OpData("producer_byte_rate", 1.0)]
    return alter_client_quotas.AlterClientQuotasRequest(
        [alter_client_quotas.EntryData(entity, ops)]
    )


def describe_scram_request(topic: str) -> Any:
    users = [describe_user_scram_credentials.UserName("x")]
    return describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users)


def alter_scram_request(topic: str) -> Any:
    deletions = [alter_user_scram_credentials.ScramCredentialDeletion("x", 1)]
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions)


def unregister_request(topic: str) -> Any:
    return unregister_broker.UnregisterBrokerRequest(7)


def elect_leaders_request(topic: str) -> Any:
    return elect_leaders.ElectLeadersRequest(0, [elect_leaders.TopicPartitions(topic, [0])])


def move_request(topic: str) -> Any:
    moved = alter_partition_reassignments.ReassignablePartition(0, [1])
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        topics=[alter_partition_reassignments.ReassignableTopic(topic, [moved])]
    )


def alter_log_dirs_request(topic: str) -> Any:
    rows = [alter_replica_log_dirs.AlterReplicaLogDirTopic(topic, [0])]
    directory = alter_replica_log_dirs.AlterReplicaLogDir("/nosuch", rows)
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest([directory])


def update_features_request(topic: str) -> Any:
    """Return a request that changes nothing."""
    key = update_features.FeatureUpdateKey("transaction.version", 2)
    return update_features.UpdateFeaturesRequest(feature_updates=[key])


def list_moves_request(topic: str) -> Any:
    return list_partition_reassignments.ListPartitionReassignmentsRequest()


def list_resources_request(topic: str) -> Any:
    return list_config_resources.ListConfigResourcesRequest([2])


def codes(response: Any) -> Iterator[int]:
    """Yield every error code in a response, at any level."""
    for name in getattr(response, "__slots__", ()):
        value = getattr(response, name)
        if name in {"error_code", "partition_error_code"}:
            yield value
        for element in value if isinstance(value, list) else [value]:
            yield from codes(element)
