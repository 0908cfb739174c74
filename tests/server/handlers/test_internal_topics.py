"""Requests that name an internal topic get an error before the broker changes any state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.apis import APIS
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, INTERNAL_TOPICS
from oncelog_server.handlers import add_partitions_to_txn, create_partitions, delete_topics
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.results import SUCCESS, TransactionResult
from tests.server.handlers.nodes import ask, broker
from tests.server.handlers.requests import add_by_broker, add_by_client


@pytest.mark.parametrize("version", APIS[create_partitions.API].versions)
@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
async def test_the_partition_count_of_an_internal_topic_cannot_change(
    topic: str, version: int
) -> None:
    """The hash of a group or of a transactional id, modulo the number of partitions, is its
    partition. So the number of partitions is fixed."""
    async with broker() as services:
        count = len((await services.metadata.missing_topics.create_one(topic)).partitions)
        for wanted in (count + 1, count):
            request = CreatePartitionsRequest([CreatePartitionsTopic(topic, wanted)])
            (result,) = (await ask(create_partitions, services, request, version)).results
            assert result.error_code == ErrorCode.INVALID_REQUEST
            assert f"'{topic}'" in result.error_message
        assert len(services.metadata.image.topics[topic].partitions) == count


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
async def test_an_internal_topic_can_be_deleted_as_in_kafka(topic: str) -> None:
    async with broker() as services:
        await services.metadata.missing_topics.create_one(topic)
        request = DeleteTopicsRequest([DeleteTopicState(topic)])
        (result,) = (await ask(delete_topics, services, request)).responses
        assert result.error_code == ErrorCode.NONE
        assert topic not in services.metadata.image.topics


class Adding:
    """A coordinator that accepts and records every AddPartitions."""

    def __init__(self) -> None:
        self.added: list[AddPartitions] = []

    def add_partitions(self, command: AddPartitions) -> TransactionResult:
        self.added.append(command)
        return SUCCESS


@pytest.mark.parametrize("version", APIS[add_partitions_to_txn.API].versions)
@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
async def test_brokers_may_add_the_offsets_topic_to_a_transaction_and_clients_may_not(
    topic: str, version: int
) -> None:
    by_broker = version >= add_partitions_to_txn.BROKERS_SINCE
    async with broker() as services:
        await services.metadata.missing_topics.create_one(topic)
        adding: Any = Adding()
        request = add_by_broker(topic) if by_broker else add_by_client(topic)
        services = replace(services, transactions=adding)
        response = await ask(add_partitions_to_txn, services, request, version)
        (named,) = (
            response.results_by_transaction[0].topic_results
            if by_broker
            else response.results_by_topic_v3_and_below
        )
        (row,) = named.results_by_partition
    if by_broker and topic == CONSUMER_OFFSETS:
        assert (row.partition_error_code, len(adding.added)) == (ErrorCode.NONE, 1)
    else:
        assert row.partition_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not adding.added
