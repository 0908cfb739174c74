"""The audit: every refused request is logged, no served request is, and changes of rules and
credentials name their principal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from oncelog_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from oncelog_protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.handlers import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
)
from oncelog_server.security.access import DENIED
from oncelog_server.security.audit_trail import LOGGED, AuditTrail
from oncelog_server.security.authorizer import Subject
from oncelog_server.security.resources import Operation, Resource, ResourceType
from oncelog_server.settings.model import Settings
from tests.server.handlers import requests as requests_about
from tests.server.handlers.nodes import StillClock, ask, broker, producer_ids_from
from tests.server.handlers.test_authorization import (
    CLUSTER_ACTION,
    DENIALS,
    HANDLERS,
    TOPIC,
    WRITE_TOPIC,
    Denial,
    Granting,
    NoGroups,
    Right,
    Transactions,
    Untouched,
)

AUTHORIZED = Settings(
    authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer"
)


class Auditing(Granting):
    """Allows only some rights, and records the denials that are logged."""

    def __init__(self, *rights: Right) -> None:
        super().__init__(*rights)
        self.logged: list[tuple[Operation, Resource]] = []

    def denied(
        self,
        subject: Subject,
        operation: Operation,
        resource: Resource,
        api_key: int,
        *,
        logged: bool,
    ) -> None:
        if logged:
            self.logged.append((operation, resource))


async def served(
    authorizer: Auditing, api: ApiKey, request: Any, version: int | None = None
) -> list[tuple[Operation, Resource]]:
    """Return the logged denials of a request."""
    async with broker(Settings(transaction_two_phase_commit_enable=True), authorizer) as services:
        await services.metadata.create_topics([NewTopic(TOPIC)])
        untouched: Any = Untouched()
        groups: Any = NoGroups()
        transactions: Any = Transactions("id")
        services = replace(
            services,
            clock=StillClock(),
            transactions=transactions,
            groups=groups,
            local_markers=untouched,
            producer_ids=producer_ids_from(7),
            fetch_sessions=FetchSessions(10, lambda: 1),
        )
        await ask(HANDLERS[api], services, request, version)
    return authorizer.logged


# A transactional batch without a transactional id is refused, but lacks no right.
LACKING_RIGHTS = [
    denial
    for denial in DENIALS
    if denial.api is not ApiKey.PRODUCE
    or denial.request(TOPIC).transactional_id
    or not denial.granted
]


@pytest.mark.parametrize(
    "denial", LACKING_RIGHTS, ids=[f"{row.api.name}-{row.code.name}" for row in LACKING_RIGHTS]
)
async def test_a_refused_request_is_logged_with_a_right_that_it_lacks(denial: Denial) -> None:
    request = denial.request(TOPIC)
    logged = await served(Auditing(*denial.granted), denial.api, request, denial.version)
    if denial.code is DENIED[ResourceType.TOPIC]:
        assert logged  # a follower lacks a right on the cluster
    else:
        assert denial.code in {DENIED[resource.type] for _, resource in logged}


K = ApiKey
DELETE_TOPIC = (Operation.DELETE, ResourceType.TOPIC)
DESCRIBE_TOPIC = (Operation.DESCRIBE, ResourceType.TOPIC)
CREATE_TOPIC = (Operation.CREATE, ResourceType.TOPIC)
# Requests that are served, but with fewer rights than the broker looks for, and lists that leave
# out what the client may not see.
SERVED: list[tuple[ApiKey, Callable[[str], Any], tuple[Right, ...]]] = [
    (K.METADATA, lambda _: requests_about.metadata_request(None), ()),
    (K.LIST_GROUPS, requests_about.list_groups_request, ()),
    (K.LIST_TRANSACTIONS, requests_about.list_transactions_request, ()),
    (K.CREATE_TOPICS, lambda _: requests_about.create_request("new"), (CREATE_TOPIC,)),
    (K.DELETE_TOPICS, requests_about.delete_request, (DESCRIBE_TOPIC, DELETE_TOPIC)),
    (K.INIT_PRODUCER_ID, requests_about.idempotent_request, (WRITE_TOPIC,)),
    (K.OFFSET_FOR_LEADER_EPOCH, requests_about.epoch_request, (DESCRIBE_TOPIC,)),
    (K.OFFSET_FOR_LEADER_EPOCH, requests_about.epoch_request, (CLUSTER_ACTION,)),
    (
        K.DESCRIBE_TOPIC_PARTITIONS,
        lambda _: DescribeTopicPartitionsRequest([], 10),
        (),
    ),
]


@pytest.mark.parametrize(("api", "request_about", "rights"), SERVED)
async def test_a_served_request_logs_no_denial(
    api: ApiKey, request_about: Callable[[str], Any], rights: tuple[Right, ...]
) -> None:
    assert await served(Auditing(*rights), api, request_about(TOPIC)) == []


async def test_operations_that_a_client_asks_about_are_no_denials() -> None:
    request = requests_about.metadata_request(TOPIC)
    request.include_topic_authorized_operations = True
    assert await served(Auditing(DESCRIBE_TOPIC), K.METADATA, request) == []


class Events:
    def __init__(self) -> None:
        self.found: list[tuple[str, dict[str, Any]]] = []
        self.trail = AuditTrail(lambda event, **fields: self.found.append((event, fields)))

    async def of(self, services: BrokerServices, handler: Any, request: Any) -> list[Any]:
        """Return the events of a request."""
        self.found.clear()
        await ask(handler, replace(services, audit_trail=self.trail), request)
        return list(self.found)


def creation(name: str) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=4,
        principal="User:alice",
        host="*",
        operation=Operation.READ,
        permission_type=3,
    )


async def test_changed_access_rules_are_logged_with_the_principal_that_changed_them() -> None:
    events = Events()
    by = {"principal": "User:ANONYMOUS", "host": "127.0.0.1", "listener": "PLAINTEXT"}
    rule = "ALLOW READ by User:alice from * on TOPIC PREFIXED orders"
    invalid = creation("")
    delete = DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)])
    async with broker(AUTHORIZED) as services:
        request = CreateAclsRequest([creation("orders"), invalid])
        expected = {**by, "count": 1, "changes": [rule]}
        assert await events.of(services, create_acls, request) == [("access rules added", expected)]
        assert await events.of(services, create_acls, CreateAclsRequest([invalid])) == []
        assert await events.of(services, delete_acls, delete) == [
            ("access rules removed", expected)
        ]
        assert await events.of(services, delete_acls, delete) == []


async def test_an_event_lists_only_some_of_many_changes() -> None:
    async with broker(AUTHORIZED) as services:
        request = CreateAclsRequest([creation(f"t{number}") for number in range(500)])
        ((_, fields),) = await Events().of(services, create_acls, request)
        assert fields["count"] == 500
        assert len(fields["changes"]) == LOGGED


async def test_changed_credentials_are_logged_without_their_secrets() -> None:
    events = Events()
    request = AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion("absent", 1)],
        [ScramCredentialUpsertion("alice", 1, 4096, b"S3cretSalt", b"S3cretPassword")],
    )
    async with broker() as services:
        ((event, fields),) = await events.of(services, alter_user_scram_credentials, request)
    assert event == "credentials changed"
    assert (fields["changes"], fields["count"]) == (["alice"], 1)
    assert "S3cret" not in str(fields)


async def test_changed_quotas_are_logged() -> None:
    entity = [EntityData("user", "alice"), EntityData("client-id", None)]
    operations = [
        OpData("producer_byte_rate", 1024.0, False),
        OpData("consumer_byte_rate", 0, True),
    ]
    request = AlterClientQuotasRequest([EntryData(entity, operations)], False)
    async with broker() as services:
        ((event, fields),) = await Events().of(services, alter_client_quotas, request)
    assert event == "quotas changed"
    assert sorted(fields["changes"]) == [
        "client-id=<default>,user=alice consumer_byte_rate=removed",
        "client-id=<default>,user=alice producer_byte_rate=1024.0",
    ]
