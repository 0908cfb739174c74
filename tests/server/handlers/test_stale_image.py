"""Requests that a handler decides from the image, while the watch of the broker is late: another
broker has changed the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.elect_leaders import ElectLeadersRequest
from oncelog_protocol.types import ZERO_UUID, uuid_to_string
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster import records
from oncelog_server.cluster.store import Delete, Put
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.handlers import delete_acls, delete_topics, elect_leaders
from oncelog_server.handlers.delete_topics import STATES_SINCE
from oncelog_server.metadata import barrier
from oncelog_server.settings.model import Settings
from tests.server.handlers.nodes import ask, broker, context
from tests.server.metadata.brokers import until
from tests.server.metadata.memory_store import MemoryStore
from tests.server.metadata.view import View

TOPIC_ID = bytes(range(16))
SETTINGS = Settings(
    oncelog_brokers=2,
    authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    super_users="User:ANONYMOUS",
)
DELETE_BY_NAME = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
DELETE_BY_ID = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=TOPIC_ID)])
DELETE_RULES = DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)])
ELECT_ALL = ElectLeadersRequest(election_type=0, topic_partitions=None)


@asynccontextmanager
async def stale_broker() -> AsyncIterator[tuple[BrokerServices, View]]:
    """A broker that has not seen a topic and a rule."""
    view = View(MemoryStore())
    async with broker(SETTINGS, store=view) as services:
        view.watches.clear()
        id_text = uuid_to_string(TOPIC_ID)
        # The preferred leader does not lead.
        partition = records.PartitionRecord((1, 7), (1, 7), 7, 0)
        rule = records.AclsRecord((("User:a", "*", 3, 3),))
        view.store.apply(
            [
                Put(records.topic_key("t"), records.encode(records.TopicRecord(id_text, 1))),
                Put(records.partition_key(id_text, 0), records.encode(partition)),
                Put(records.acls_key(2, 3, "t"), records.encode(rule)),
            ]
        )
        yield services, view
        view.watches.set()


def deleted(response: Any) -> object:
    return [(row.name, row.error_code) for row in response.responses]


def rules(response: Any) -> object:
    return [(row.error_code, len(row.matching_acls)) for row in response.filter_results]


def elected(response: Any) -> object:
    return response.error_code, [row.topic for row in response.replica_election_results]


REQUESTS = pytest.mark.parametrize(
    ("handler", "request_", "summary", "outcome", "unavailable"),
    [
        (delete_topics, DELETE_BY_NAME, deleted, [("t", 0)], [("t", 7)]),
        (delete_topics, DELETE_BY_ID, deleted, [("t", 0)], [(None, 7)]),
        (delete_acls, DELETE_RULES, rules, [(0, 1)], [(7, 0)]),
        (elect_leaders, ELECT_ALL, elected, (0, ["t"]), (7, [])),
    ],
    ids=["topic by name", "topic by id", "rules", "all leaders"],
)


@REQUESTS
async def test_a_request_sees_what_another_broker_has_changed(
    handler: Any,
    request_: Any,
    summary: Callable[[Any], object],
    outcome: object,
    unavailable: object,
) -> None:
    async with stale_broker() as (services, view):
        asked = asyncio.create_task(ask(handler, services, request_))
        await until(lambda: asked.done() or view.barriers > 0)
        view.watches.set()
        assert summary(await asked) == outcome


@REQUESTS
async def test_a_request_gets_a_retriable_error_if_the_store_fails(
    handler: Any,
    request_: Any,
    summary: Callable[[Any], object],
    outcome: object,
    unavailable: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(barrier, "LIMIT_S", 0.05)
    async with stale_broker() as (services, view):
        view.responds.clear()
        assert summary(await ask(handler, services, request_)) == unavailable


@pytest.mark.parametrize("is_created_again", [True, False])
@pytest.mark.parametrize(
    ("by_id", "code"),
    [(True, ErrorCode.UNKNOWN_TOPIC_ID), (False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
async def test_a_deletion_leaves_a_topic_that_is_created_after_its_check(
    by_id: bool, code: ErrorCode, is_created_again: bool
) -> None:
    """Another broker deletes the topic between the check of the request and the deletion."""
    store = MemoryStore()
    async with broker(store=store) as services:
        await services.metadata.create_topics([NewTopic("t")])
        known = services.metadata.image.topics["t"].id
        wanted = DeleteTopicState(topic_id=known) if by_id else DeleteTopicState(name="t")
        asked = context(services, delete_topics.API, STATES_SINCE)
        request = DeleteTopicsRequest(topics=[wanted])
        # The check. The deletion begins in the next turn of the loop.
        deleting: Any = delete_topics.handle(services, asked, request)
        created = records.encode(records.TopicRecord(uuid_to_string(TOPIC_ID), 0))
        key = records.topic_key("t")
        store.apply([Put(key, created) if is_created_again else Delete(key)])
        await until(lambda: deleting.done)
        (row,) = deleting.value.responses
        id_, name = (known, None) if by_id else (ZERO_UUID, "t")
        assert (row.name, row.topic_id, row.error_code) == (name, id_, code)
        topics = services.metadata.image.topics
        assert ("t" in topics) == is_created_again
        if is_created_again:
            assert topics["t"].id == TOPIC_ID
