"""The requests that every user sends. Each names several resources, so that some are allowed and
others are denied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from oncelog_protocol.apis import Api, api_of
from oncelog_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
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
    write_txn_markers,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord

TOPICS: Final = ("pay", "payments", "orders")
MISSING: Final = "paid"
NAMES: Final = (*TOPICS, MISSING)
# No broker can create a topic of this name.
INVALID: Final = "pay!"
GROUPS: Final = ("pay", "orders")
IDS: Final = ("pay", "orders")
UNKNOWN_PRODUCER: Final = 1_000_000
# Users whose number is divisible by this create and delete topics.
CHANGING: Final = 25
TOPIC, BROKER = 2, 4


class User(NamedTuple):
    """A user on one broker, with the ids of the broker's topics."""

    number: int
    topic_ids: Mapping[str, bytes]

    @property
    def changes_topics(self) -> bool:
        return self.number % CHANGING == 0

    def deletable(self) -> str:
        """Return the topic that only this user deletes. It exists if the user changes topics."""
        return deletable(self.number) if self.changes_topics else MISSING


def deletable(number: int) -> str:
    return f"orders-{number}"


class Template(NamedTuple):
    """`make` makes the request of a user. Each user sends it in a version that is drawn from
    `versions`. `is_constant`: all users send the same request."""

    name: str
    api: Api
    make: Callable[[User], Any]
    versions: range
    is_constant: bool


TEMPLATES: Final[list[Template]] = []


def template(
    since: int = 0, until: int = 99, *, is_constant: bool = False
) -> Callable[[Callable[[User], Any]], Callable[[User], Any]]:
    """Return a decorator that adds a template, with the versions of its API from `since` to
    `until`."""

    def add(make: Callable[[User], Any]) -> Callable[[User], Any]:
        made = make(User(1, dict.fromkeys(NAMES, bytes(16))))
        api = api_of(type(made))
        versions = range(max(since, api.oldest), min(until, api.latest) + 1)
        TEMPLATES.append(Template(make.__name__, api, make, versions, is_constant))
        return make

    return add


def constant(request: Any, name: str, since: int = 0, until: int = 99) -> None:
    """Add a template with the same request for every user."""

    def make(user: User) -> Any:
        return request

    make.__name__ = name
    template(since, until, is_constant=True)(make)


def _batch(producer_id: int = -1) -> bytearray:
    fields = {} if producer_id < 0 else {"producer_id": producer_id, "producer_epoch": 0}
    return build_batch(
        [NewRecord(1_700_000_000_000, None, b"v")],
        base_sequence=-1 if producer_id < 0 else 0,
        is_transactional=producer_id >= 0,
        **fields,
    )


def _produce(user: User, *names: str, id: str | None = None, producer_id: int = -1) -> Any:
    return produce.ProduceRequest(
        id,
        -1,
        10_000,
        [
            produce.TopicProduceData(
                name, user.topic_ids[name], [produce.PartitionProduceData(0, _batch(producer_id))]
            )
            for name in names
        ],
    )


@template()
def produce_to_one(user: User) -> Any:
    return _produce(user, "pay")


@template(until=12)
def produce_to_all(user: User) -> Any:
    return _produce(user, *NAMES)


@template(since=13)
def produce_by_id(user: User) -> Any:
    return _produce(user, *TOPICS)


@template()
def produce_with_id(user: User) -> Any:
    return _produce(user, "pay", "orders", id="pay", producer_id=UNKNOWN_PRODUCER)


@template()
def produce_in_a_transaction_without_id(user: User) -> Any:
    return _produce(user, "orders", producer_id=UNKNOWN_PRODUCER)


def _fetch(user: User, *names: str, replica_id: int = -1) -> Any:
    return fetch.FetchRequest(
        replica_id=replica_id,
        replica_state=None if replica_id < 0 else fetch.ReplicaState(replica_id),
        topics=[
            fetch.FetchTopic(
                name,
                user.topic_ids[name],
                [fetch.FetchPartition(0, partition_max_bytes=1, log_start_offset=0)],
            )
            for name in names
        ],
    )


@template(until=12)
def fetch_all(user: User) -> Any:
    return _fetch(user, *NAMES)


@template(since=13)
def fetch_by_id(user: User) -> Any:
    return _fetch(user, *TOPICS)


@template(until=12)
def fetch_as_a_follower(user: User) -> Any:
    return _fetch(user, "pay", replica_id=2)


constant(
    list_offsets.ListOffsetsRequest(
        -1,
        topics=[
            list_offsets.ListOffsetsTopic(
                name, [list_offsets.ListOffsetsPartition(0, timestamp=-1)]
            )
            for name in NAMES
        ],
    ),
    "list_offsets",
)
constant(
    offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        -1,
        [
            offset_for_leader_epoch.OffsetForLeaderTopic(
                name, [offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)]
            )
            for name in NAMES
        ],
    ),
    "offset_for_leader_epoch",
)


def _metadata(*names: str, creates: bool = False) -> Any:
    return metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=creates,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


constant(_metadata(*NAMES), "metadata", since=4)
constant(_metadata(*TOPICS), "metadata_of_old_clients", until=3)
constant(_metadata(INVALID, creates=True), "metadata_that_creates")
constant(
    metadata.MetadataRequest(None, include_topic_authorized_operations=True),
    "metadata_of_all_topics",
    since=1,
)


@template(since=12)
def metadata_by_id(user: User) -> Any:
    return metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(user.topic_ids[name], None) for name in TOPICS],
        include_topic_authorized_operations=True,
    )


def _partitions(*names: str) -> Any:
    topics = [describe_topic_partitions.TopicRequest(name) for name in names]
    return describe_topic_partitions.DescribeTopicPartitionsRequest(topics)


constant(_partitions(*NAMES), "topic_partitions")
constant(_partitions(), "partitions_of_all_topics")


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
    elect_leaders.ElectLeadersRequest(
        0, [elect_leaders.TopicPartitions(name, [0]) for name in ("pay", "orders")], 10_000
    ),
    "elect_leaders",
)
constant(
    list_partition_reassignments.ListPartitionReassignmentsRequest(),
    "list_partition_reassignments",
)
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
constant(describe_client_quotas.DescribeClientQuotasRequest([]), "describe_client_quotas")
constant(
    describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        [describe_user_scram_credentials.UserName("nobody-1")]
    ),
    "describe_users",
)
constant(
    alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        [alter_user_scram_credentials.ScramCredentialDeletion("nobody-1", 1)]
    ),
    "alter_users",
)
for _type, _keys in ((0, GROUPS), (1, IDS)):
    for _key in _keys:
        constant(
            find_coordinator.FindCoordinatorRequest(_key, _type, list(_keys)),
            f"find_coordinator_{_type}_{_key}",
            since=1,
        )
for _group in GROUPS:
    constant(join_group.JoinGroupRequest(_group), f"join_{_group}")
constant(sync_group.SyncGroupRequest("pay", 1, "member"), "sync_without_protocol")
constant(
    sync_group.SyncGroupRequest("orders", 1, "member", None, "consumer", "range"), "sync_group"
)
constant(heartbeat.HeartbeatRequest("orders", 1, "member"), "heartbeat")
constant(
    leave_group.LeaveGroupRequest("pay", "member", [leave_group.MemberIdentity("member")]),
    "leave_group",
)
constant(
    describe_groups.DescribeGroupsRequest(list(GROUPS), include_authorized_operations=True),
    "describe_groups",
)
constant(
    delete_groups.DeleteGroupsRequest(["paid", "orders-none"]), "delete_missing_groups", until=2
)
constant(list_groups.ListGroupsRequest(), "list_groups")


def _commit(user: User, group: str, *names: str) -> Any:
    return offset_commit.OffsetCommitRequest(
        group,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name,
                user.topic_ids[name],
                [offset_commit.OffsetCommitRequestPartition(0, user.number)],
            )
            for name in names
        ],
    )


@template(until=9)
def commit_to_pay(user: User) -> Any:
    return _commit(user, "pay", *NAMES)


@template()
def commit_to_orders(user: User) -> Any:
    return _commit(user, "orders", *TOPICS)


@template()
def fetch_offsets(user: User) -> Any:
    return offset_fetch.OffsetFetchRequest(
        "pay",
        [offset_fetch.OffsetFetchRequestTopic(name, [0]) for name in TOPICS],
        [
            offset_fetch.OffsetFetchRequestGroup(
                group,
                topics=[
                    offset_fetch.OffsetFetchRequestTopics(name, user.topic_ids[name], [0])
                    for name in TOPICS
                ],
            )
            for group in GROUPS
        ],
    )


constant(
    offset_fetch.OffsetFetchRequest(
        "orders",
        None,
        [offset_fetch.OffsetFetchRequestGroup(group, topics=None) for group in GROUPS],
    ),
    "fetch_all_offsets",
    since=2,
)
constant(
    offset_delete.OffsetDeleteRequest(
        "pay",
        [
            offset_delete.OffsetDeleteRequestTopic(
                name, [offset_delete.OffsetDeleteRequestPartition(partition)]
            )
            for name, partition in (("pay", 0), ("orders", 7), (MISSING, 0))
        ],
    ),
    "delete_offsets",
)
constant(init_producer_id.InitProducerIdRequest(None, 60_000), "init_idempotent")
for _id in IDS:
    constant(init_producer_id.InitProducerIdRequest(_id, 60_000), f"init_{_id}")
constant(
    init_producer_id.InitProducerIdRequest("pay", 60_000, enable_2pc=True), "init_two_phase", 6
)


def _added(*names: str) -> list[add_partitions_to_txn.AddPartitionsToTxnTopic]:
    return [add_partitions_to_txn.AddPartitionsToTxnTopic(name, [0]) for name in names]


for _id, _names in (("pay", NAMES), ("orders", (*TOPICS, "__consumer_offsets"))):
    constant(
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=_id,
            v3_and_below_producer_id=UNKNOWN_PRODUCER,
            v3_and_below_topics=_added(*_names),
        ),
        f"add_partitions_{_id}",
        until=3,
    )
constant(
    add_partitions_to_txn.AddPartitionsToTxnRequest(
        [
            add_partitions_to_txn.AddPartitionsToTxnTransaction(
                "pay", UNKNOWN_PRODUCER, 0, True, _added("pay", "orders")
            )
        ]
    ),
    "add_partitions_of_brokers",
    since=4,
)
constant(
    add_offsets_to_txn.AddOffsetsToTxnRequest("pay", UNKNOWN_PRODUCER, 0, "orders"), "add_offsets"
)
for _id in IDS:
    constant(end_txn.EndTxnRequest(_id, UNKNOWN_PRODUCER, 0, True), f"end_{_id}")
constant(
    write_txn_markers.WriteTxnMarkersRequest(
        [
            write_txn_markers.WritableTxnMarker(
                UNKNOWN_PRODUCER,
                0,
                False,
                [write_txn_markers.WritableTxnMarkerTopic(MISSING, [0])],
                0,
            )
        ]
    ),
    "write_markers",
)


@template(until=5)
def commit_in_a_transaction(user: User) -> Any:
    return txn_offset_commit.TxnOffsetCommitRequest(
        "pay",
        "pay",
        UNKNOWN_PRODUCER,
        0,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name, partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(0, 7)]
            )
            for name in NAMES
        ],
    )


constant(
    describe_producers.DescribeProducersRequest(
        [describe_producers.TopicRequest(name, [0]) for name in NAMES]
    ),
    "describe_producers",
)
constant(
    describe_transactions.DescribeTransactionsRequest([*IDS, "paid"]), "describe_transactions"
)
constant(list_transactions.ListTransactionsRequest(), "list_transactions")
constant(
    describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True),
    "describe_cluster",
)
constant(api_versions.ApiVersionsRequest("client", "1"), "api_versions", until=4)
