"""The APIs of access rules (ACLs) get the same responses from oncelog and from Apache Kafka, and a
rule holds for the next request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from oncelog_protocol.messages.describe_acls import DescribeAclsRequest
from oncelog_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create
from tests.harness.kafka.kafka import Kafka
from tests.harness.kafka.tools import run_tool
from tests.harness.waiting import wait_until
from tests.harness.writing import produce, records

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
READ, WRITE, ALTER, DESCRIBE, CLUSTER_ACTION = 3, 4, 7, 8, 9
DENY, ALLOW = 2, 3
SETTINGS = {**QUICK, "authorizer.class.name": STANDARD_AUTHORIZER}
Broker = Oncelog | Kafka
CREATED = (ErrorCode.NONE, "")


def started(request: pytest.FixtureRequest, folder: Path, settings: dict[str, str]) -> Broker:
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
        return Kafka(folder, settings)
    return Oncelog(folder, settings)


@pytest.fixture(params=["oncelog", "kafka"], scope="module")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker with access rules. Its clients are super users."""
    settings = SETTINGS | {"super.users": "User:ANONYMOUS"}
    with started(request, tmp_path_factory.mktemp("acls"), settings) as broker:
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    """A connection to a broker without rules."""
    with Wire(broker.address) as connection:
        delete(connection, DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY))
        wait_until(lambda: not described(connection), "no rules")
        yield connection


def creation(
    name: str,
    *,
    resource_type: int = TOPIC,
    pattern_type: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = READ,
    permission: int = ALLOW,
) -> AclCreation:
    return AclCreation(resource_type, name, pattern_type, principal, host, operation, permission)


def created(wire: Wire, *creations: AclCreation) -> list[tuple[int, str | None]]:
    response = wire.call(CreateAclsRequest(list(creations)), 3)
    return [(result.error_code, result.error_message) for result in response.results]


def delete(wire: Wire, *filters: DeleteAclsFilter) -> list[tuple[int, list[tuple[object, ...]]]]:
    response = wire.call(DeleteAclsRequest(list(filters)), 3)
    return [
        (
            result.error_code,
            sorted(
                (acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host,
                 acl.operation, acl.permission_type)
                for acl in result.matching_acls
            ),
        )
        for result in response.filter_results
    ]  # fmt: skip


def described(
    wire: Wire, resource_type: int = ANY, name: str | None = None, pattern_type: int = ANY,
    principal: str | None = None,
) -> list[tuple[object, ...]]:  # fmt: skip
    request = DescribeAclsRequest(resource_type, name, pattern_type, principal, None, ANY, ANY)
    response = wire.call(request, 3)
    assert response.error_code == ErrorCode.NONE
    return sorted(
        (found.resource_type, found.resource_name, found.pattern_type, acl.principal, acl.host,
         acl.operation, acl.permission_type)
        for found in response.resources
        for acl in found.acls
    )  # fmt: skip


RULES = (
    creation("orders"),
    creation("orders", operation=WRITE, permission=DENY, host="10.0.0.1"),
    creation("ord", pattern_type=PREFIXED, principal="User:bob"),
    creation("*", principal="User:*"),
    creation("orders", resource_type=GROUP),
    creation("sink/", resource_type=TRANSACTIONAL_ID, pattern_type=PREFIXED, operation=WRITE),
    creation("kafka-cluster", resource_type=CLUSTER, operation=ALTER),
)


def test_created_rules_are_described_and_chosen_by_filters(wire: Wire) -> None:
    assert created(wire, *RULES) == [CREATED] * len(RULES)
    wait_until(lambda: len(described(wire)) == len(RULES), "all rules")
    assert [len(described(wire, *chosen)) for chosen in (
        (TOPIC,), (TOPIC, "orders"), (TOPIC, "orders", LITERAL), (TOPIC, "orders", MATCH),
        (TOPIC, "ord", PREFIXED), (ANY, "orders", ANY), (ANY, None, PREFIXED),
        (ANY, None, ANY, "User:bob"), (TOPIC, "x", MATCH),
    )] == [4, 2, 2, 4, 1, 3, 2, 1, 1]  # fmt: skip


def test_a_rule_that_exists_is_created_again_without_an_error(wire: Wire) -> None:
    assert created(wire, RULES[0], RULES[0]) == [CREATED] * 2
    assert created(wire, RULES[0]) == [CREATED]
    wait_until(lambda: len(described(wire)) == 1, "one rule")


def test_a_wrong_rule_is_refused_and_the_others_are_created(wire: Wire) -> None:
    results = created(
        wire,
        RULES[0],
        creation("mine", resource_type=CLUSTER),
        creation(""),
        creation("a", resource_type=99),
        creation("a", pattern_type=99),
        creation("a", operation=99),
        creation("a", permission=99),
        creation("a", principal="alice"),
    )
    invalid = ErrorCode.INVALID_REQUEST
    assert results == [
        CREATED,
        (invalid, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (invalid, "Invalid empty resource name"),
        (invalid, "Invalid resourceType UNKNOWN"),
        (invalid, "Invalid patternType UNKNOWN"),
        (invalid, "Invalid operation UNKNOWN"),
        (invalid, "Invalid permissionType UNKNOWN"),
        (
            invalid,
            "Could not parse principal from `alice` (no colon is present separating the principal "
            "type from the principal name)",
        ),
    ]
    wait_until(lambda: len(described(wire)) == 1, "the correct rule")


def test_deleted_rules_are_returned_for_each_filter(wire: Wire) -> None:
    created(wire, *RULES)
    wait_until(lambda: len(described(wire)) == len(RULES), "all rules")
    everything_of_bob = DeleteAclsFilter(ANY, None, ANY, "User:bob", None, ANY, ANY)
    fitting = DeleteAclsFilter(TOPIC, "orders", MATCH, None, None, READ, ANY)
    bob = (TOPIC, "ord", PREFIXED, "User:bob", "*", READ, ALLOW)
    alice = (TOPIC, "orders", LITERAL, "User:alice", "*", READ, ALLOW)
    all_users = (TOPIC, "*", LITERAL, "User:*", "*", READ, ALLOW)
    assert delete(wire, everything_of_bob, fitting) == [
        (ErrorCode.NONE, [bob]),
        (ErrorCode.NONE, [all_users, bob, alice]),
    ]
    wait_until(lambda: len(described(wire)) == len(RULES) - 3, "the other rules")


@pytest.mark.parametrize(
    "codes", [{"resource_type": ANY}, {"pattern_type": ANY}, {"pattern_type": MATCH},
              {"operation": ANY}, {"permission": ANY}]
)  # fmt: skip
def test_a_rule_with_a_code_of_filters_fails_the_whole_request(
    wire: Wire, codes: dict[str, int]
) -> None:
    failed = (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    wrong: dict[str, Any] = {**codes}
    assert created(wire, RULES[0], creation("a", **wrong)) == [failed, failed]
    assert described(wire) == []


def test_a_code_that_does_not_exist_chooses_no_rule(wire: Wire) -> None:
    created(wire, RULES[0])
    wait_until(lambda: len(described(wire)) == 1, "one rule")
    assert described(wire, 99) == described(wire, ANY, None, 99) == []
    refused = delete(
        wire,
        DeleteAclsFilter(99, None, ANY, None, None, ANY, ANY),
        DeleteAclsFilter(ANY, None, ANY, None, None, 99, ANY),
    )
    assert refused == [(ErrorCode.INVALID_REQUEST, [])] * 2
    assert len(described(wire)) == 1


def test_an_unknown_code_closes_the_connection(broker: Broker) -> None:
    with Wire(broker.address) as wire:
        wire.send(CreateAclsRequest([creation("a", operation=0)]), 3)
        assert wire.is_closed()
    with Wire(broker.address) as wire:
        wire.send(DescribeAclsRequest(ANY, None, ANY, None, None, 0, ANY), 3)
        assert wire.is_closed()


def test_kafkas_tool_adds_lists_and_removes_rules(wire: Wire, broker: Broker) -> None:
    def acls(*arguments: str) -> str:
        return run_tool("acls", "--bootstrap-server", broker.address, *arguments).stdout

    acls("--add", "--allow-principal", "User:alice", "--producer", "--topic", "t")
    wait_until(lambda: len(described(wire)) == 3, "the rules of a producer")
    listed = acls("--list")
    pattern = "ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)"
    assert f"Current ACLs for resource `{pattern}`:" in listed
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        rule = f"(principal=User:alice, host=*, operation={operation}, permissionType=ALLOW)"
        assert rule in listed
    acls("--remove", "--force", "--allow-principal", "User:alice", "--producer", "--topic", "t")
    wait_until(lambda: not described(wire), "no rules")


@pytest.fixture(params=["oncelog", "kafka"], scope="module")
def open_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker without super users. Without a rule about a resource, everything is allowed. The
    rules of each test stay, and those of the last test deny all changes of rules."""
    settings = SETTINGS | {"allow.everyone.if.no.acl.found": "true"}
    with started(request, tmp_path_factory.mktemp("open"), settings) as broker:
        yield broker


def test_a_rule_holds_for_the_next_request_and_after_a_kill(open_broker: Broker) -> None:
    def code(topic: str) -> int:
        with Wire(open_broker.address) as wire:
            return produce(wire, topic, build_batch(records())).error_code

    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with Wire(open_broker.address) as wire:
        create(wire, "open")
        create(wire, "closed")
        wait_until(lambda: code("open") == code("closed") == ErrorCode.NONE, "both have leaders")
        rule = creation("clo", pattern_type=PREFIXED, principal="User:*", operation=WRITE,
                        permission=DENY)  # fmt: skip
        created(wire, rule)

        def is_denied() -> bool:
            return produce(wire, "closed", build_batch(records())).error_code == denied

        wait_until(is_denied, "the connection that was open before gets the rule")
    assert (code("open"), code("closed")) == (ErrorCode.NONE, denied)
    # A topic that does not exist is refused in the same way.
    assert code("clothes") == denied
    open_broker.kill()
    open_broker.start()
    assert (code("open"), code("closed")) == (ErrorCode.NONE, denied)


def test_a_rule_for_another_host_does_not_hold_here(open_broker: Broker) -> None:
    with Wire(open_broker.address) as wire:
        create(wire, "t")
        for host, expected in (
            ("10.9.9.9", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            ("127.0.0.1", ErrorCode.NONE),
        ):
            created(wire, creation("t", principal="User:ANONYMOUS", host=host, operation=WRITE))

            def is_decided(expected: ErrorCode = expected) -> bool:
                return produce(wire, "t", build_batch(records())).error_code == expected

            wait_until(is_decided, f"{expected.name} after a rule for {host}")


def test_credentials_need_the_rights_to_alter_and_to_describe_the_cluster(
    open_broker: Broker,
) -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    upsertion = ScramCredentialUpsertion("alice", 1, 4096, b"salt", b"salted")
    altering = AlterUserScramCredentialsRequest([ScramCredentialDeletion("bob", 1)], [upsertion])

    def altered(wire: Wire) -> dict[str, int]:
        return {row.user: row.error_code for row in wire.call(altering).results}

    with Wire(open_broker.address) as wire:
        rules = [
            creation("kafka-cluster", resource_type=CLUSTER, principal="User:ANONYMOUS",
                     operation=operation, permission=permission)
            for operation, permission in (
                (DESCRIBE, DENY), (ALTER, DENY),
                (CLUSTER_ACTION, ALLOW),  # for Kafka's broker, which has the same principal
            )
        ]  # fmt: skip
        assert created(wire, *rules) == [CREATED] * 3
        wait_until(lambda: altered(wire) == {"alice": denied, "bob": denied}, "a denied change")

        def is_denied() -> bool:
            response = wire.call(DescribeUserScramCredentialsRequest([UserName("alice")]))
            return (response.error_code, response.error_message) == (denied, None)

        wait_until(is_denied, "a denied description")
