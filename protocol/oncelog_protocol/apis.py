"""Which APIs exist, in which versions, and which header goes with which: the one list.

What a broker advertises and answers is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from oncelog_protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from oncelog_protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from oncelog_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from oncelog_protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from oncelog_protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from oncelog_protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from oncelog_protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from oncelog_protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from oncelog_protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from oncelog_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from oncelog_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog_protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncelog_protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from oncelog_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from oncelog_protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataResponse
from oncelog_protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from oncelog_protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from oncelog_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from oncelog_protocol.messages.produce import ProduceRequest, ProduceResponse
from oncelog_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from oncelog_protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from oncelog_protocol.schema import schema_of


class ApiKey(IntEnum):
    """The number of an API on the wire."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    DESCRIBE_TOPIC_PARTITIONS = 75


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its two messages, the versions spoken, and where compact types begin."""

    key: ApiKey
    name: str
    request: type[Any]
    response: type[Any]
    oldest: int
    latest: int
    flexible_since: int

    @property
    def advertised_oldest(self) -> int:
        """What ApiVersions says: 0 for Produce, where librdkafka looks for the record format.

        Versions below `oldest` close the connection all the same, as in Kafka 4 (KIP-896).
        """
        return 0 if self.key == ApiKey.PRODUCE else self.oldest

    @property
    def versions(self) -> range:
        """The versions spoken here."""
        return range(self.oldest, self.latest + 1)

    def common_version(self, oldest: int, latest: int) -> int | None:
        """The highest version that a peer speaking `oldest` to `latest` shares, if any."""
        version = min(self.latest, latest)
        return version if version >= max(self.oldest, oldest) else None


def _api(key: ApiKey, request: type, response: type, oldest: int, latest: int) -> Api:
    name = request.__name__.removesuffix("Request")
    return Api(key, name, request, response, oldest, latest, schema_of(request).flexible_since)


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(ApiKey.PRODUCE, ProduceRequest, ProduceResponse, 3, 13),
        _api(ApiKey.FETCH, FetchRequest, FetchResponse, 4, 18),
        _api(ApiKey.LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse, 1, 11),
        _api(ApiKey.METADATA, MetadataRequest, MetadataResponse, 0, 13),
        _api(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse, 2, 10),
        _api(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse, 1, 10),
        _api(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse, 0, 6),
        _api(ApiKey.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse, 0, 9),
        _api(ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse, 0, 4),
        _api(ApiKey.LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse, 0, 5),
        _api(ApiKey.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse, 0, 5),
        _api(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest, DescribeGroupsResponse, 0, 6),
        _api(ApiKey.LIST_GROUPS, ListGroupsRequest, ListGroupsResponse, 0, 5),
        _api(ApiKey.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse, 0, 5),
        _api(ApiKey.CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse, 2, 7),
        _api(ApiKey.DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicsResponse, 1, 6),
        _api(ApiKey.DELETE_RECORDS, DeleteRecordsRequest, DeleteRecordsResponse, 0, 2),
        _api(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse, 0, 5),
        _api(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            OffsetForLeaderEpochRequest,
            OffsetForLeaderEpochResponse,
            2,
            4,
        ),
        _api(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            AddPartitionsToTxnRequest,
            AddPartitionsToTxnResponse,
            0,
            5,
        ),
        _api(ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, 0, 4),
        _api(ApiKey.END_TXN, EndTxnRequest, EndTxnResponse, 0, 5),
        _api(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest, WriteTxnMarkersResponse, 1, 2),
        _api(ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, TxnOffsetCommitResponse, 0, 6),
        _api(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResponse, 1, 4),
        _api(ApiKey.ALTER_CONFIGS, AlterConfigsRequest, AlterConfigsResponse, 0, 2),
        _api(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest, DescribeLogDirsResponse, 1, 5),
        _api(ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsResponse, 0, 3),
        _api(ApiKey.DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse, 0, 3),
        _api(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            IncrementalAlterConfigsRequest,
            IncrementalAlterConfigsResponse,
            0,
            1,
        ),
        _api(ApiKey.OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse, 0, 0),
        _api(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, DescribeClusterResponse, 0, 2),
        _api(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            DescribeTopicPartitionsRequest,
            DescribeTopicPartitionsResponse,
            0,
            0,
        ),
    )
}


API_OF_REQUEST: dict[type, Api] = {api.request: api for api in APIS.values()}


def request_header_version(key: int, version: int) -> int:
    """2 (with tagged fields) where the request is flexible, else 1. Raises KeyError."""
    return 2 if version >= APIS[key].flexible_since else 1


def response_header_version(key: int, version: int) -> int:
    """1 (with tagged fields) where the response is flexible, else 0. Raises KeyError.

    Always 0 for ApiVersions: its reader does not know yet what the broker speaks (KIP-511).
    """
    if key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version >= APIS[key].flexible_since else 0
