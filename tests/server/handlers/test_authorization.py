"""Every handler checks the client's rights before anything else, and refuses as Kafka does."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import delete_topics, describe_topic_partitions, fetch
from oncelog_server import handlers
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.group.views import GroupViews
from oncelog_server.handlers import all_handlers
from oncelog_server.security.authorizer import AllowAll, Subject
from oncelog_server.security.resources import Operation, Resource, ResourceType
from oncelog_server.settings.model import Settings
from oncelog_server.slices import SMALL
from oncelog_server.transaction.fences import Fences
from oncelog_server.transaction.metadata import TransactionMetadata, to_record
from oncelog_server.transaction.shard import TransactionShard
from oncelog_server.transaction.views import TransactionViews
from tests.server.handlers.nodes import StillClock, ask, broker, producer_ids_from
from tests.server.handlers.requests import (
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    LOGGERS,
    TOPIC_SETTINGS,
    add_by_broker,
    add_by_client,
    add_offsets_request,
    alter_incrementally_request,
    alter_log_dirs_request,
    alter_quotas_request,
    alter_request,
    alter_scram_request,
    codes,
    commit_request,
    configs_request,
    coordinator_call_request,
    coordinator_request,
    create_acls_request,
    create_partitions_request,
    create_request,
    delete_acls_request,
    delete_groups_request,
    delete_records_request,
    delete_request,
    describe_acls_request,
    describe_groups_request,
    describe_log_dirs_request,
    describe_producers_request,
    describe_quotas_request,
    describe_scram_request,
    describe_topic_request,
    describe_transactions_request,
    elect_leaders_request,
    end_request,
    epoch_request,
    fetch_request,
    heartbeat_request,
    idempotent_request,
    join_request,
    joining_request,
    keeping_request,
    leave_request,
    list_groups_request,
    list_moves_request,
    list_offsets_request,
    list_resources_request,
    list_transactions_request,
    markers_request,
    metadata_request,
    move_request,
    offset_delete_request,
    offset_fetch_request,
    produce_request,
    sync_request,
    transactional_request,
    two_phase_request,
    txn_commit_request,
    unregister_request,
    update_features_request,
)
from tests.server.handlers.test_no_coordinator import without_internal_topics

HANDLERS: Final = {handler.API: handler.module for handler in all_handlers()}
TOPIC: Final = "orders"

TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

DESCRIBE_TOPIC: Final = (Operation.DESCRIBE, ResourceType.TOPIC)
READ_TOPIC: Final = (Operation.READ, ResourceType.TOPIC)
WRITE_TOPIC: Final = (Operation.WRITE, ResourceType.TOPIC)
READ_GROUP: Final = (Operation.READ, ResourceType.GROUP)
WRITE_ID: Final = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
CLUSTER_ACTION: Final = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER)

Right = tuple[Operation, ResourceType]


class Granting(AllowAll):
    """An authorizer that allows only `rights`, each on every resource of its type."""

    def __init__(self, *rights: Right) -> None:
        self._rights = rights

    def authorize(self, subject: Subject, operation: Operation, resource: Resource) -> bool:
        return (operation, resource.type) in self._rights

    def authorize_any(self, subject: Subject, operation: Operation, type: ResourceType) -> bool:
        return (operation, type) in self._rights


class Untouched:
    """A part of the broker that a client without rights must never reach."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def reached(*arguments: Any, **settings: Any) -> None:
            raise AssertionError(f"{name} was called for a client without the right")

        return reached


class NoGroups(Untouched):
    def __init__(self) -> None:
        runtime: Any = self
        self.views = GroupViews(runtime)

    def check_loaded(self) -> None:
        pass

    def shards(self) -> list[Any]:
        return []


class Transactions(Untouched):
    """A coordinator that has the transactional ids `ids`."""

    def __init__(self, *ids: str) -> None:
        untouched: Any = Untouched()
        runtime: Any = self
        self.views = TransactionViews(
            runtime,
            Fences(),
            [0, 0],
            find=lambda _: untouched.find(),
            has_leader=untouched.has_leader,
            has_all_shards=untouched.has_all_shards,
            monotonic_ms=untouched.monotonic_ms,
        )
        self._shard = TransactionShard(0, max_timeout_ms=1)
        for name in ids:
            metadata = TransactionMetadata(name, 1, 0, 1, last_update_ms=1)
            self._shard.replay(to_record(metadata), offset=0, transaction=None)

    def shards(self) -> list[tuple[int, TransactionShard]]:
        return [(0, self._shard)]


@dataclass(frozen=True)
class Denial:
    """A request about a topic by a client with only the rights `granted`, and the only error code
    in its response."""

    api: ApiKey
    request: Callable[[str], Any]
    code: ErrorCode
    granted: tuple[Right, ...] = ()
    version: int | None = None


K = ApiKey
DENIALS: Final = [
    Denial(K.PRODUCE, produce_request(-1, None), TOPIC_DENIED, version=12),
    Denial(K.PRODUCE, produce_request(1, "id"), ID_DENIED, (WRITE_TOPIC,), 12),
    Denial(K.PRODUCE, produce_request(1, None), ID_DENIED, (WRITE_TOPIC, WRITE_ID), 12),
    Denial(K.FETCH, fetch_request(-1), TOPIC_DENIED, (CLUSTER_ACTION,), 12),
    Denial(K.FETCH, fetch_request(2), TOPIC_DENIED, (READ_TOPIC,), 12),
    Denial(K.LIST_OFFSETS, list_offsets_request, TOPIC_DENIED),
    Denial(K.OFFSET_FOR_LEADER_EPOCH, epoch_request, TOPIC_DENIED),
    Denial(K.METADATA, metadata_request, TOPIC_DENIED),
    Denial(K.DESCRIBE_TOPIC_PARTITIONS, describe_topic_request, TOPIC_DENIED),
    Denial(K.DELETE_RECORDS, delete_records_request, TOPIC_DENIED, (DESCRIBE_TOPIC,)),
    Denial(K.CREATE_TOPICS, create_request, TOPIC_DENIED),
    Denial(K.DELETE_TOPICS, delete_request, TOPIC_DENIED),
    Denial(K.CREATE_PARTITIONS, create_partitions_request, TOPIC_DENIED),
    Denial(K.DESCRIBE_CONFIGS, configs_request(TOPIC_SETTINGS), TOPIC_DENIED),
    Denial(K.DESCRIBE_CONFIGS, configs_request(BROKER_SETTINGS), CLUSTER_DENIED),
    Denial(K.DESCRIBE_CONFIGS, configs_request(LOGGERS), CLUSTER_DENIED),
    Denial(K.DESCRIBE_CONFIGS, configs_request(GROUP_SETTINGS), GROUP_DENIED),
    Denial(K.ALTER_CONFIGS, alter_request, TOPIC_DENIED),
    Denial(K.INCREMENTAL_ALTER_CONFIGS, alter_incrementally_request, TOPIC_DENIED),
    Denial(K.DESCRIBE_LOG_DIRS, describe_log_dirs_request, CLUSTER_DENIED),
    Denial(K.DESCRIBE_PRODUCERS, describe_producers_request, TOPIC_DENIED, (DESCRIBE_TOPIC,)),
    Denial(K.DESCRIBE_TRANSACTIONS, describe_transactions_request, ID_DENIED),
    Denial(K.FIND_COORDINATOR, coordinator_request(0), GROUP_DENIED),
    Denial(K.FIND_COORDINATOR, coordinator_request(1), ID_DENIED),
    Denial(K.FIND_COORDINATOR, coordinator_request(2), GROUP_DENIED, version=5),
    Denial(K.JOIN_GROUP, join_request, GROUP_DENIED),
    Denial(K.SYNC_GROUP, sync_request, GROUP_DENIED),
    Denial(K.HEARTBEAT, heartbeat_request, GROUP_DENIED),
    Denial(K.LEAVE_GROUP, leave_request, GROUP_DENIED),
    Denial(K.DESCRIBE_GROUPS, describe_groups_request, GROUP_DENIED),
    Denial(K.DELETE_GROUPS, delete_groups_request, GROUP_DENIED),
    Denial(K.OFFSET_COMMIT, commit_request, GROUP_DENIED, (READ_TOPIC,), 9),
    # The coordinator is not called, so the member's session is not renewed (B7).
    Denial(K.OFFSET_COMMIT, commit_request, TOPIC_DENIED, (READ_GROUP,), 9),
    Denial(K.OFFSET_FETCH, offset_fetch_request, GROUP_DENIED, (DESCRIBE_TOPIC,), 9),
    Denial(K.OFFSET_DELETE, offset_delete_request, GROUP_DENIED, (READ_TOPIC,)),
    Denial(K.TXN_OFFSET_COMMIT, txn_commit_request, ID_DENIED, (READ_GROUP, READ_TOPIC), 5),
    Denial(K.TXN_OFFSET_COMMIT, txn_commit_request, GROUP_DENIED, (WRITE_ID, READ_TOPIC), 5),
    Denial(K.TXN_OFFSET_COMMIT, txn_commit_request, TOPIC_DENIED, (WRITE_ID, READ_GROUP), 5),
    Denial(K.INIT_PRODUCER_ID, idempotent_request, CLUSTER_DENIED, (WRITE_ID,)),
    Denial(K.INIT_PRODUCER_ID, transactional_request, ID_DENIED),
    Denial(K.INIT_PRODUCER_ID, two_phase_request, ID_DENIED, (WRITE_ID,)),
    Denial(K.INIT_PRODUCER_ID, keeping_request, ID_DENIED, (WRITE_ID,)),
    Denial(K.INIT_PRODUCER_ID, joining_request, ID_DENIED, (READ_GROUP,)),
    Denial(K.INIT_PRODUCER_ID, joining_request, GROUP_DENIED, (WRITE_ID,)),
    Denial(K.ADD_PARTITIONS_TO_TXN, add_by_client, ID_DENIED, (WRITE_TOPIC,), 3),
    Denial(K.ADD_PARTITIONS_TO_TXN, add_by_client, TOPIC_DENIED, (WRITE_ID,), 3),
    Denial(K.ADD_PARTITIONS_TO_TXN, add_by_broker, CLUSTER_DENIED, (WRITE_ID, WRITE_TOPIC)),
    Denial(K.ADD_OFFSETS_TO_TXN, add_offsets_request, ID_DENIED, (READ_GROUP,)),
    Denial(K.ADD_OFFSETS_TO_TXN, add_offsets_request, GROUP_DENIED, (WRITE_ID,)),
    Denial(K.END_TXN, end_request, ID_DENIED),
    Denial(K.DESCRIBE_ACLS, describe_acls_request, CLUSTER_DENIED),
    Denial(K.CREATE_ACLS, create_acls_request, CLUSTER_DENIED),
    Denial(K.DELETE_ACLS, delete_acls_request, CLUSTER_DENIED),
    Denial(K.DESCRIBE_CLIENT_QUOTAS, describe_quotas_request, CLUSTER_DENIED),
    Denial(K.ALTER_CLIENT_QUOTAS, alter_quotas_request, CLUSTER_DENIED),
    Denial(K.DESCRIBE_USER_SCRAM_CREDENTIALS, describe_scram_request, CLUSTER_DENIED),
    Denial(K.ALTER_USER_SCRAM_CREDENTIALS, alter_scram_request, CLUSTER_DENIED),
    Denial(K.ALTER_REPLICA_LOG_DIRS, alter_log_dirs_request, CLUSTER_DENIED),
    Denial(K.UPDATE_FEATURES, update_features_request, CLUSTER_DENIED),
    Denial(K.ELECT_LEADERS, elect_leaders_request, CLUSTER_DENIED),
    Denial(K.ALTER_PARTITION_REASSIGNMENTS, move_request, CLUSTER_DENIED),
    Denial(K.UNREGISTER_BROKER, unregister_request, CLUSTER_DENIED),
    Denial(K.LIST_PARTITION_REASSIGNMENTS, list_moves_request, CLUSTER_DENIED),
    Denial(K.LIST_CONFIG_RESOURCES, list_resources_request, CLUSTER_DENIED),
    Denial(K.WRITE_TXN_MARKERS, markers_request, CLUSTER_DENIED, (WRITE_ID,)),
    Denial(K.COORDINATOR_CALL, coordinator_call_request, CLUSTER_DENIED, (WRITE_ID,)),
]
# These APIs respond to every client. Their responses leave out what the client may not see, or
# refuse every request.
OPEN: Final = {
    ApiKey.API_VERSIONS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SHARE_GROUP_HEARTBEAT,
}


@asynccontextmanager
async def broker_granting(*rights: Right) -> AsyncIterator[BrokerServices]:
    async with broker(authorizer=Granting(*rights)) as services:
        await services.metadata.create_topics([NewTopic(TOPIC)])
        untouched: Any = Untouched()
        groups: Any = NoGroups()
        yield replace(
            services,
            clock=StillClock(),
            transactions=untouched,
            groups=groups,
            local_markers=untouched,
            producer_ids=untouched,
            fetch_sessions=FetchSessions(10, lambda: 1),
        )


@pytest.mark.parametrize("topic", [TOPIC, "missing"])
@pytest.mark.parametrize(
    "denial", DENIALS, ids=[f"{denial.api.name}-{denial.code.name}" for denial in DENIALS]
)
async def test_a_client_without_the_right_gets_no_information_and_changes_nothing(
    denial: Denial, topic: str
) -> None:
    """The responses are the same whether the topic exists or not."""
    async with broker_granting(*denial.granted) as services:
        before = services.metadata.image
        response = await ask(HANDLERS[denial.api], services, denial.request(topic), denial.version)
        assert set(codes(response)) - {ErrorCode.NONE} == {denial.code}
        assert services.metadata.image is before


def test_every_api_has_a_denial_or_is_open_to_every_client() -> None:
    assert {denial.api for denial in DENIALS} | OPEN == set(HANDLERS)


async def test_lists_leave_out_resources_that_a_client_may_not_see() -> None:
    async with broker_granting() as services:
        everything = await ask(HANDLERS[ApiKey.METADATA], services, metadata_request(None))
        assert everything.topics == []
        groups = await ask(HANDLERS[ApiKey.LIST_GROUPS], services, list_groups_request(TOPIC))
        assert groups.groups == []
        assert await transactional_ids(services) == []
    async with broker_granting((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)) as services:
        assert await transactional_ids(services) == ["id"]


@pytest.mark.parametrize(
    ("rights", "leaves_out"),
    [
        ((), False),
        (((Operation.ALTER, ResourceType.CLUSTER),), True),
        ((CLUSTER_ACTION,), True),
        ((CLUSTER_ACTION, (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)), False),
    ],
)
async def test_a_client_that_may_abort_transactions_learns_that_ids_are_left_out(
    rights: tuple[Right, ...], leaves_out: bool
) -> None:
    """An id that is left out would look like a hanging transaction."""
    async with broker_granting(*rights) as services:
        listing: Any = Transactions("id")
        services = replace(services, transactions=listing)
        request = list_transactions_request(TOPIC)
        response = await ask(HANDLERS[ApiKey.LIST_TRANSACTIONS], services, request)
        assert response.leaves_out is leaves_out


async def test_a_long_list_of_transactional_ids_follows_the_rights_too() -> None:
    ids = [f"id-{number}" for number in range(3 * SMALL + 1)]
    async with broker_granting((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)) as services:
        assert await transactional_ids(services, *ids) == ids
    async with broker_granting() as services:
        assert await transactional_ids(services, *ids) == []


async def transactional_ids(services: BrokerServices, *ids: str) -> list[str]:
    """Return the transactional ids that ListTransactions lists. The coordinator has `ids`, or if
    there are none, the id `id`."""
    listing: Any = Transactions(*(ids or ("id",)))
    services = replace(services, transactions=listing)
    request = list_transactions_request(TOPIC)
    response = await ask(HANDLERS[ApiKey.LIST_TRANSACTIONS], services, request)
    return [row.transactional_id for row in response.transaction_states]


async def test_a_topic_is_not_created_for_a_client_that_may_only_see_it() -> None:
    async with broker_granting(DESCRIBE_TOPIC) as services:
        request = metadata_request("missing")
        (topic,) = (await ask(HANDLERS[ApiKey.METADATA], services, request)).topics
        assert topic.error_code == TOPIC_DENIED
        assert "missing" not in services.metadata.image.topics


async def test_the_right_to_write_to_a_topic_includes_idempotence() -> None:
    async with broker_granting(WRITE_TOPIC) as services:
        services = replace(services, producer_ids=producer_ids_from(7))
        response = await ask(HANDLERS[ApiKey.INIT_PRODUCER_ID], services, idempotent_request(TOPIC))
        assert (response.error_code, response.producer_id) == (ErrorCode.NONE, 7)


class Counting(Granting):
    questions = 0

    def authorize(self, subject: Subject, operation: Operation, resource: Resource) -> bool:
        self.questions += 1
        return super().authorize(subject, operation, resource)


@pytest.mark.parametrize("partitions", [3, 3 * SMALL])
@pytest.mark.parametrize("rights", [(), (WRITE_TOPIC, READ_TOPIC)])
@pytest.mark.parametrize("api", [K.PRODUCE, K.FETCH])
async def test_a_request_checks_each_topic_once(
    api: ApiKey, rights: tuple[Right, ...], partitions: int
) -> None:
    """The authorizer gets one question, whatever the number of partitions and the verdict."""
    authorizer = Counting(*rights)
    async with broker_granting() as services:
        services = replace(services, authorizer=authorizer)
        request: Any
        if api is K.PRODUCE:
            request = produce_request(-1, None)(TOPIC)
            request.topic_data[0].partition_data *= partitions
        else:
            request = fetch_request(-1)(TOPIC)
            request.topics[0].partitions = [
                fetch.FetchPartition(number) for number in range(partitions)
            ]
        await ask(HANDLERS[api], services, request, 12)
        assert authorizer.questions == 1


def test_handlers_check_rights_only_through_their_request() -> None:
    """No handler names the authorizer. A handler asks its `RequestContext`, which asks the
    authorizer."""
    for path in Path(handlers.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = node.attr if isinstance(node, ast.Attribute) else ""
            assert named not in ("authorizer", "authorize", "authorize_any"), path.name


async def test_init_producer_id_never_asks_about_each_topic() -> None:
    authorizer = Counting()
    async with broker(authorizer=authorizer) as services:
        await services.metadata.create_topics([NewTopic(f"t-{number}") for number in range(20)])
        response = await ask(HANDLERS[ApiKey.INIT_PRODUCER_ID], services, idempotent_request(TOPIC))
        assert response.error_code == CLUSTER_DENIED
        # The checks before and after the question about the type. Only the last check is logged.
        assert authorizer.questions == 2


async def test_the_right_to_write_to_future_topics_includes_idempotence() -> None:
    async with broker(authorizer=Granting(WRITE_TOPIC)) as services:
        services = replace(services, producer_ids=producer_ids_from(7), clock=StillClock())
        response = await ask(HANDLERS[ApiKey.INIT_PRODUCER_ID], services, idempotent_request(TOPIC))
        assert (response.error_code, response.producer_id) == (ErrorCode.NONE, 7)


async def test_the_delete_right_on_the_cluster_includes_its_topics() -> None:
    async with broker_granting((Operation.DELETE, ResourceType.CLUSTER)) as services:
        response = await ask(HANDLERS[ApiKey.DELETE_TOPICS], services, delete_request(TOPIC))
        assert [topic.error_code for topic in response.responses] == [ErrorCode.NONE]
        assert TOPIC not in services.metadata.image.topics


@pytest.mark.parametrize(
    ("topic", "code"), [(TOPIC, TOPIC_DENIED), ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
)
async def test_a_topic_that_may_be_described_is_missing_or_may_not_be_deleted(
    topic: str, code: ErrorCode
) -> None:
    """The client may learn if the topic exists. So Kafka first looks the topic up, then checks the
    right to delete."""
    async with broker_granting(DESCRIBE_TOPIC) as services:
        response = await ask(HANDLERS[ApiKey.DELETE_TOPICS], services, delete_request(topic))
        assert [topic.error_code for topic in response.responses] == [code]
        assert TOPIC in services.metadata.image.topics


@pytest.mark.parametrize(
    ("rights", "name"), [((), None), ((DESCRIBE_TOPIC,), TOPIC)], ids=["hidden", "visible"]
)
async def test_a_refused_deletion_by_id_names_only_a_topic_that_may_be_described(
    rights: tuple[Right, ...], name: str | None
) -> None:
    async with broker_granting(*rights) as services:
        topic_id = services.metadata.image.topics[TOPIC].id
        request = delete_topics.DeleteTopicsRequest(
            [delete_topics.DeleteTopicState(None, topic_id)]
        )
        (result,) = (await ask(HANDLERS[ApiKey.DELETE_TOPICS], services, request)).responses
        assert (result.error_code, result.name) == (TOPIC_DENIED, name)
        assert TOPIC in services.metadata.image.topics


async def test_topics_that_a_client_may_not_see_come_last_in_a_page() -> None:
    class Hiding(Granting):
        def authorize(self, subject: Subject, operation: Operation, resource: Resource) -> bool:
            return resource.name != "a"

    async with broker(authorizer=Hiding()) as services:
        await services.metadata.create_topics([NewTopic("a"), NewTopic("b")])
        request = describe_topic_partitions.DescribeTopicPartitionsRequest(
            [describe_topic_partitions.TopicRequest(name) for name in ("a", "b", "c")], 10
        )
        response = await ask(HANDLERS[ApiKey.DESCRIBE_TOPIC_PARTITIONS], services, request)
        assert [topic.name for topic in response.topics] == ["b", "c", "a"]


async def test_a_follower_may_ask_for_the_end_of_an_epoch() -> None:
    async with broker_granting(CLUSTER_ACTION) as services:
        response = await ask(
            HANDLERS[ApiKey.OFFSET_FOR_LEADER_EPOCH], services, epoch_request(TOPIC)
        )
        # The broker allows the request. This error code comes from the missing log.
        assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("request_about", [two_phase_request, keeping_request])
@pytest.mark.parametrize("switched_on", [True, False])
@pytest.mark.parametrize("may", [True, False])
async def test_w4_two_phase_commit_needs_the_setting_and_the_permission(
    request_about: Callable[[str], Any], switched_on: bool, may: bool
) -> None:
    """A missing setting and a missing right have the same error code, and change nothing
    (KIP-939)."""
    rights = (WRITE_ID, (Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID))
    settings = Settings(transaction_two_phase_commit_enable=switched_on)
    async with broker(settings, Granting(*rights[: 1 + may])) as services:
        services = without_internal_topics(services)
        response = await ask(HANDLERS[ApiKey.INIT_PRODUCER_ID], services, request_about(TOPIC))
    # An allowed request passes the checks, and is refused because this broker is no coordinator.
    allowed = switched_on and may
    assert response.error_code == (ErrorCode.NOT_COORDINATOR if allowed else ID_DENIED)
