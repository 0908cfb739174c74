"""The first requests of administration consoles, to a broker without security, quotas, elections
and reassignments."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import alter_client_quotas as alter_quotas
from oncelog_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from oncelog_protocol.messages.describe_acls import DescribeAclsRequest
from oncelog_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from oncelog_protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from oncelog_protocol.messages.list_config_resources import ListConfigResourcesRequest
from oncelog_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.conformance.conftest import Target
from tests.conformance.differences import LOGGERS_ARE_NO_RESOURCES

ANY = 1
DISABLED = "SECURITY_DISABLED"
REQUEST = "INVALID_REQUEST"


def said(response: Any) -> tuple[str, str | None]:
    """Return the name of the error code, and the message."""
    return ErrorCode(response.error_code).name, response.error_message


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_without_an_authorizer(wire: Wire, version: int) -> None:
    everything = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
    described = wire.call(everything, version)
    assert said(described) == (DISABLED, "No Authorizer is configured on the broker")
    assert described.resources == []
    right = AclCreation(2, "t", 3, "User:x", "*", 3, 3)
    created = wire.call(CreateAclsRequest([right, right]), version)
    refused = (DISABLED, "No Authorizer is configured.")
    assert [said(result) for result in created.results] == [refused] * 2
    wanted = DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)
    deleted = wire.call(DeleteAclsRequest([wanted]), version)
    (result,) = deleted.filter_results
    assert said(result) == refused
    assert result.matching_acls == []


@pytest.mark.parametrize(
    "request_",
    [
        DescribeAclsRequest(),
        CreateAclsRequest([AclCreation(2, "t", 0, "User:x", "*", 3, 3)]),
        DeleteAclsRequest([DeleteAclsFilter(ANY, None, 0, None, None, ANY, ANY)]),
    ],
    ids=lambda request: type(request).__name__,
)
def test_acl_requests_with_invalid_codes_close_the_connection(wire: Wire, request_: Any) -> None:
    wire.send(request_)
    assert wire.is_closed()


QUOTA_FILTERS = {
    "all": ([], "NONE", ""),
    "users": ([ComponentData("user", 2)], "NONE", ""),
    "twice": (
        [ComponentData("user", 2), ComponentData("user", 1)],
        REQUEST,
        "Entity type user cannot appear more than once in the filter.",
    ),
    "empty": ([ComponentData("", 2)], REQUEST, "Invalid empty entity type."),
    "custom": (
        [ComponentData("custom", 2)],
        "UNSUPPORTED_VERSION",
        "Unsupported entity type custom",
    ),
    "ip and user": (
        [ComponentData("ip", 2), ComponentData("user", 2)],
        REQUEST,
        "Invalid entity filter component combination. IP filter component should not be used with "
        "user or clientId filter component.",
    ),
    "match": ([ComponentData("user", 9)], REQUEST, "Unknown match type 9"),
    "exact": (
        [ComponentData("user", 0)],
        REQUEST,
        "Request specified MATCH_TYPE_EXACT, but set match string to null.",
    ),
    "any with a name": (
        [ComponentData("user", 2, "x")],
        REQUEST,
        "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
    ),
    "default with a name": (
        [ComponentData("user", 1, "x")],
        REQUEST,
        "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
    ),
}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("case", QUOTA_FILTERS)
def test_quotas_where_there_are_none(wire: Wire, case: str, version: int) -> None:
    components, code, message = QUOTA_FILTERS[case]
    response = wire.call(DescribeClientQuotasRequest(components), version)
    assert said(response) == (code, message)
    assert response.entries == ([] if code == "NONE" else None)


def quota(kind: str, producer: str, key: str, value: float, *, remove: bool = False) -> Any:
    """Return one change of a quota of one entity."""
    entity = [alter_quotas.EntityData(kind, producer)]
    return alter_quotas.EntryData(entity, [alter_quotas.OpData(key, value, remove)])


RATE = "producer_byte_rate"
QUOTA_CHANGES = {
    "removed": ([quota("user", "x", RATE, 0.0, remove=True)], "NONE", None),
    "no entity": (
        [alter_quotas.EntryData([], [alter_quotas.OpData(RATE, 1.0)])],
        REQUEST,
        "Invalid empty client quota entity",
    ),
    "key": ([quota("user", "x", "nosuch", 1.0)], REQUEST, "Invalid configuration key nosuch"),
    "type": (
        [quota("foo", "x", RATE, 1.0)],
        REQUEST,
        "Unhandled client quota entity type: foo",
    ),
    "negative": (
        [quota("user", "x", RATE, -1.0)],
        REQUEST,
        "Quota producer_byte_rate must be greater than 0",
    ),
    "fraction": (
        [quota("user", "x", RATE, 1.5)],
        REQUEST,
        "producer_byte_rate cannot be a fractional value.",
    ),
    "no name": ([quota("user", "", RATE, 1.0)], REQUEST, "Empty user not supported"),
}


@pytest.mark.parametrize("case", QUOTA_CHANGES)
def test_quotas_that_cannot_be_set(wire: Wire, case: str) -> None:
    entries, code, message = QUOTA_CHANGES[case]
    response = wire.call(alter_quotas.AlterClientQuotasRequest(entries, validate_only=True))
    (entry,) = response.entries
    assert said(entry) == (code, message)
    assert entry.entity == entries[0].entity


NOT_NEEDED = ("ELECTION_NOT_NEEDED", "Leader election not needed for topic partition.")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_leaders_are_elected_already(wire: Wire, topic: str, version: int) -> None:
    missing = f"{topic}-not"
    wanted = [TopicPartitions(topic, [0, 2, 7]), TopicPartitions(missing, [0])]
    response = wire.call(ElectLeadersRequest(0, wanted, 1_000), version)
    assert response.error_code == ErrorCode.NONE
    found = {
        (result.topic, partition.partition_id): said(partition)
        for result in response.replica_election_results
        for partition in result.partition_result
    }
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert found == {
        (topic, 0): NOT_NEEDED,
        (topic, 2): NOT_NEEDED,
        (topic, 7): (unknown, f"No such partition as {topic}-7"),
        (missing, 0): (unknown, f"No such topic as {missing}"),
    }


def test_an_election_for_all_partitions_elects_no_leader(wire: Wire, topic: str) -> None:
    response = wire.call(ElectLeadersRequest(0, None, 1_000))
    assert response.error_code == ErrorCode.NONE
    assert topic in {
        replica_election_result.topic
        for replica_election_result in response.replica_election_results
    }
    assert not any(
        replica_election_result.partition_result
        for replica_election_result in response.replica_election_results
    )


def test_an_unclean_election_and_one_of_an_unknown_type(wire: Wire, topic: str) -> None:
    for kind, code, of_each in (
        (1, "NONE", NOT_NEEDED),
        (5, REQUEST, (REQUEST, "Unknown election type 5")),
    ):
        request = ElectLeadersRequest(kind, [TopicPartitions(topic, [0])], 1_000)
        response = wire.call(request)
        assert ErrorCode(response.error_code).name == code
        (result,) = response.replica_election_results
        assert [said(partition) for partition in result.partition_result] == [of_each]


def test_no_partition_is_moved(wire: Wire, topic: str) -> None:
    some = [
        ListPartitionReassignmentsTopics(topic, [0, 9]),
        ListPartitionReassignmentsTopics(f"{topic}-not", [0]),
    ]
    for topics in (None, [], some):
        response = wire.call(ListPartitionReassignmentsRequest(1_000, topics))
        assert (said(response), response.topics) == (("NONE", None), [])


def resources(wire: Wire, *types: int) -> set[tuple[int, str]]:
    """Return the resources of these types that have settings."""
    response = wire.call(ListConfigResourcesRequest(list(types)))
    assert response.error_code == ErrorCode.NONE
    return {
        (config_resource.resource_type, config_resource.resource_name)
        for config_resource in response.config_resources
    }


def test_the_resources_with_settings_are_listed(target: Target, wire: Wire, topic: str) -> None:
    assert (2, topic) in resources(wire, 2)
    assert resources(wire, 4, 4) == {(4, "1")}
    assert resources(wire, 16, 32) == set()
    loggers = LOGGERS_ARE_NO_RESOURCES.expected(target.name)
    assert resources(wire, 8) == ({(8, "1")} if loggers == "listed" else set())
    assert resources(wire) == resources(wire, 2, 4, 8)
    for unknown in (0, 3, 64):
        response = wire.call(ListConfigResourcesRequest([unknown]))
        assert ErrorCode(response.error_code).name == "UNSUPPORTED_VERSION"
    assert wire.call(ListConfigResourcesRequest(), 0).config_resources == []
