"""Requests with very many elements get complete responses. The broker makes them in slices and
serves other requests between the slices (H30)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy
from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest

from oncelog_protocol.apis import APIS
from oncelog_protocol.codecs import decode, decoder, encode
from oncelog_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.deferred import Deferred
from oncelog_server.handlers import (
    add_partitions_to_txn,
    create_topics,
    delete_groups,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    fetch,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
)
from oncelog_server.producing.large import PART
from oncelog_server.request_limits import max_elements
from oncelog_server.security.authorizer import AllowAll, Subject
from oncelog_server.security.resources import Operation, Resource
from oncelog_server.settings.model import Settings
from oncelog_server.slices import SLICE_MS, SMALL, Slices, at_its_end
from tests.server.between_steps import Calls
from tests.server.handlers import requests as requests_about
from tests.server.handlers.nodes import ask, broker, context
from tests.server.hosting.test_replica_manager import life
from tests.server.log.driver import batch
from tests.server.manual_timers import ManualTimers

COUNT = 3 * SMALL
# The maximum number of steps in a turn of the event loop, in the test of Produce. Each step appends
# to some of the partitions of the request.
PARTS_OF_A_TURN = 5
ALL = Settings().oncelog_max_partitions


def requests() -> list[Any]:
    names = [f"topic-{number}" for number in range(COUNT)]
    return [
        (metadata, MetadataRequest(topics=None), 12),
        (metadata, MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), 12),
        (
            describe_configs,
            DescribeConfigsRequest([DescribeConfigsResource(2, name, None) for name in names]),
            4,
        ),
        (
            list_offsets,
            ListOffsetsRequest(
                topics=[ListOffsetsTopic(name, [ListOffsetsPartition(0)]) for name in names]
            ),
            6,
        ),
    ]


@pytest.mark.parametrize("at", range(4))
async def test_a_large_request_is_served_in_slices(at: int) -> None:
    handler, request, version = requests()[at]
    async with broker() as services:
        for first in range(0, COUNT, 100):
            names = [NewTopic(f"topic-{number}", 1) for number in range(first, first + 100)]
            await services.metadata.create_topics(names)
        timers = ManualTimers()

        def monotonic_ms() -> int:  # each reading of the clock takes time, as on a slow machine
            timers.now_ms += 1
            return timers.now_ms

        slices = services.slices
        services.slices = Slices(timers, monotonic_ms, steps_per_slice=10**9)
        steps = handler.handle(services, context(services, handler.API, version), request)
        assert isinstance(steps, GeneratorType)
        response = services.slices.queue(steps)
        turns = 0
        while timers.soon:
            began_ms = timers.now_ms
            timers.soon.pop(0)()
            turns += 1
            assert timers.now_ms - began_ms <= SLICE_MS + 2
        assert turns > COUNT / (SLICE_MS + 2)
        services.slices = slices
        whole = await ask(handler, services, request, version)
        api = type(response.value)
        assert decode(api, version, encode(response.value, version)) == whole
        rows = whole.results if handler is describe_configs else whole.topics
        assert len(rows) == COUNT


class CountedRights(AllowAll):
    """Counts how often a handler has asked for a right."""

    def __init__(self) -> None:
        self.asked = 0

    def authorize(self, subject: Subject, operation: Operation, resource: Resource) -> bool:
        self.asked += 1
        return True


# A handler, a function that makes a request for one element, the array that the test makes longer,
# and the version of the request.
WIDE = [
    (describe_groups, requests_about.describe_groups_request, "groups", 6),
    (delete_groups, requests_about.delete_groups_request, "groups_names", 2),
    (describe_producers, requests_about.describe_producers_request, "topics", 0),
    (describe_transactions, requests_about.describe_transactions_request, "transactional_ids", 0),
    (list_partition_reassignments, requests_about.list_named_moves_request, "topics", 0),
    (delete_topics, requests_about.delete_request, "topics", 6),
    (create_topics, requests_about.create_request, "topics", 7),
    (describe_topic_partitions, requests_about.describe_topic_request, "topics", 0),
    (offset_commit, requests_about.commit_request, "topics", 9),
    (txn_offset_commit, requests_about.txn_commit_request, "topics", 5),
    (offset_for_leader_epoch, requests_about.epoch_request, "topics", 4),
    (add_partitions_to_txn, requests_about.add_by_client, "v3_and_below_topics", 3),
    (add_partitions_to_txn, requests_about.add_by_broker, "transactions", 5),
]


@pytest.mark.parametrize(
    ("handler", "about", "array", "version"),
    WIDE,
    ids=[f"{handler.API.name}-{array}" for handler, _, array, _ in WIDE],
)
async def test_a_wide_request_is_served_in_slices(
    handler: Any, about: Callable[[str], Any], array: str, version: int
) -> None:
    """The handler returns steps before it checks the rights to any element."""
    request = copy(about("t"))
    setattr(request, array, getattr(request, array) * COUNT)
    rights = CountedRights()
    async with broker(authorizer=rights) as services:
        work = handler.handle(services, context(services, handler.API, version), request)
        assert isinstance(work, GeneratorType)
        # A broker that adds partitions for a client needs one right for the whole request.
        assert rights.asked <= 1


async def test_each_repetition_of_a_resource_is_a_step_too() -> None:
    request = DescribeConfigsRequest([DescribeConfigsResource(4, "0", None)] * COUNT)
    async with broker() as services:
        calls = Calls()
        steps = describe_configs.handle(
            services, context(services, describe_configs.API, 4), request
        )
        assert isinstance(steps, GeneratorType)
        response: DescribeConfigsResponse = at_its_end(calls.counted(steps))
    assert (len(response.results), calls.steps) == (1, COUNT + 1)


def test_a_request_may_name_as_many_partitions_as_a_broker_may_have() -> None:
    """The broker serves a reader of all partitions, even if each partition is in its own topic
    (B11)."""
    place = FetchTopic(topic="t", partitions=[FetchPartition()])
    offset = ListOffsetsTopic("t", [ListOffsetsPartition()])
    for handler, request in (
        (fetch, FetchRequest(topics=[place] * ALL)),
        (list_offsets, ListOffsetsRequest(topics=[offset] * ALL)),
        (metadata, MetadataRequest(topics=[MetadataRequestTopic(name="t")] * ALL)),
    ):
        version = APIS[handler.API].oldest + 6
        data = encode(request, version)
        found, _ = decoder(type(request), version)(data, 0, max_elements(handler.API, ALL))
        assert found == request


async def test_a_produce_to_very_many_partitions_lets_other_requests_run(tmp_path: Path) -> None:
    count = 2 * SMALL
    async with life(tmp_path) as alive:
        alive._slices._steps_per_slice = PARTS_OF_A_TURN
        await alive.metadata.create_topics([NewTopic("wide", count), NewTopic("narrow", 1)])
        partitions = [alive.partitions.require("wide", number) for number in range(count)]
        data = [PartitionProduceData(number, memoryview(batch())) for number in range(count)]
        request = ProduceRequest(
            acks=-1, topic_data=[TopicProduceData("wide", partition_data=data)]
        )
        response = produce.handle(alive.services, context(alive.services, produce.API, 9), request)
        assert isinstance(response, Deferred)
        most = 0
        while not response.done:
            before = sum(partition.log_end_offset for partition in partitions)
            await asyncio.sleep(0)
            most = max(most, sum(partition.log_end_offset for partition in partitions) - before)
        assert most <= PARTS_OF_A_TURN * PART < count
        assert isinstance(response.value, GeneratorType)
        answered = at_its_end(response.value)
        (topic,) = decode(ProduceResponse, 9, encode(answered, 9)).responses
        assert [
            partition_response.index for partition_response in topic.partition_responses
        ] == list(range(count))
        assert {
            (partition_response.error_code, partition_response.base_offset)
            for partition_response in topic.partition_responses
        } == {(0, 0)}


def test_partitions_that_are_added_to_a_transaction_are_collected_in_steps() -> None:
    """If one step collected 5,000 partitions, it would take a fifth of the request's time."""
    calls = Calls()
    wide = AddPartitionsToTxnTopic("wide", [*range(COUNT)])
    assert len(at_its_end(calls.counted(add_partitions_to_txn._partitions([wide])))) == COUNT
    assert calls.most < SMALL
