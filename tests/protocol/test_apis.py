"""The served APIs have the keys and versions of Apache Kafka 4.4."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from oncelog_protocol.apis import APIS, BETWEEN_BROKERS, ApiKey
from oncelog_protocol.errors import RETRIABLE, ErrorCode
from oncelog_protocol.schema import schema_of

# key: (name, oldest, latest) in Kafka.
KAFKA = {
    0: ("Produce", 3, 13),
    1: ("Fetch", 4, 18),
    2: ("ListOffsets", 1, 11),
    3: ("Metadata", 0, 13),
    8: ("OffsetCommit", 2, 10),
    9: ("OffsetFetch", 1, 10),
    10: ("FindCoordinator", 0, 6),
    11: ("JoinGroup", 0, 9),
    12: ("Heartbeat", 0, 4),
    13: ("LeaveGroup", 0, 5),
    14: ("SyncGroup", 0, 5),
    15: ("DescribeGroups", 0, 6),
    16: ("ListGroups", 0, 5),
    17: ("SaslHandshake", 0, 1),
    18: ("ApiVersions", 0, 5),
    19: ("CreateTopics", 2, 7),
    20: ("DeleteTopics", 1, 6),
    21: ("DeleteRecords", 0, 2),
    22: ("InitProducerId", 0, 6),
    23: ("OffsetForLeaderEpoch", 2, 4),
    24: ("AddPartitionsToTxn", 0, 5),
    25: ("AddOffsetsToTxn", 0, 4),
    26: ("EndTxn", 0, 5),
    27: ("WriteTxnMarkers", 1, 2),
    28: ("TxnOffsetCommit", 0, 6),
    29: ("DescribeAcls", 1, 3),
    30: ("CreateAcls", 1, 3),
    31: ("DeleteAcls", 1, 3),
    32: ("DescribeConfigs", 1, 4),
    33: ("AlterConfigs", 0, 2),
    34: ("AlterReplicaLogDirs", 1, 2),
    35: ("DescribeLogDirs", 1, 5),
    36: ("SaslAuthenticate", 0, 2),
    37: ("CreatePartitions", 0, 3),
    42: ("DeleteGroups", 0, 3),
    43: ("ElectLeaders", 0, 2),
    44: ("IncrementalAlterConfigs", 0, 1),
    45: ("AlterPartitionReassignments", 0, 1),
    46: ("ListPartitionReassignments", 0, 0),
    47: ("OffsetDelete", 0, 0),
    48: ("DescribeClientQuotas", 0, 1),
    49: ("AlterClientQuotas", 0, 1),
    50: ("DescribeUserScramCredentials", 0, 0),
    51: ("AlterUserScramCredentials", 0, 0),
    57: ("UpdateFeatures", 0, 2),
    60: ("DescribeCluster", 0, 2),
    61: ("DescribeProducers", 0, 0),
    64: ("UnregisterBroker", 0, 0),
    65: ("DescribeTransactions", 0, 0),
    66: ("ListTransactions", 0, 2),
    68: ("ConsumerGroupHeartbeat", 0, 1),
    69: ("ConsumerGroupDescribe", 0, 1),
    74: ("ListConfigResources", 0, 1),
    75: ("DescribeTopicPartitions", 0, 0),
    76: ("ShareGroupHeartbeat", 1, 1),
}

# APIs that only oncelog has. Brokers send them to each other.
OURS = {10_000: ("CoordinatorCall", 0, 0)}


def test_the_tables_have_kafkas_versions() -> None:
    assert {
        key: (api.name, schema_of(api.request).versions, schema_of(api.response).versions)
        for key, api in APIS.items()
    } == {
        key: (name, range(oldest, latest + 1), range(oldest, latest + 1))
        for key, (name, oldest, latest) in (KAFKA | OURS).items()
    }


def test_our_own_apis_are_for_brokers_only() -> None:
    assert set(OURS) == BETWEEN_BROKERS


def test_the_served_versions_equal_the_versions_of_kafka() -> None:
    for key, api in APIS.items():
        _, oldest, latest = (KAFKA | OURS)[key]
        assert (api.oldest, api.latest) == (oldest, latest)
        assert api.key == key
        assert schema_of(api.request).flexible_since == api.flexible_since
        assert schema_of(api.response).flexible_since == api.flexible_since


@pytest.mark.parametrize(
    ("peer", "common"), [((0, 3), 3), ((0, 99), 5), ((5, 6), 5), ((6, 9), None), ((-2, -1), None)]
)
def test_the_common_version_is_the_highest_that_both_sides_support(
    peer: tuple[int, int], common: int | None
) -> None:
    assert APIS[ApiKey.END_TXN].common_version(*peer) == common


def test_error_codes_have_the_same_numbers_and_are_retriable_as_in_the_library_kio() -> None:
    known = {int(error): error for error in KioErrorCode}
    ours = {error.value: error.name.lower() for error in ErrorCode if error.value in known}
    assert ours == {number: error.name for number, error in known.items()}
    retriable = {number for number, error in known.items() if error.retriable}
    assert {code for code in RETRIABLE if code in known} == retriable


def test_error_codes_have_kafkas_numbers() -> None:
    assert ErrorCode(47) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert ErrorCode(90) is ErrorCode.PRODUCER_FENCED
    assert ErrorCode(-1).name == "UNKNOWN_SERVER_ERROR"
    assert ErrorCode.CONCURRENT_TRANSACTIONS in RETRIABLE
    assert ErrorCode.INVALID_TXN_STATE not in RETRIABLE
