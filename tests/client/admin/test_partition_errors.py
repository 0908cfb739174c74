"""Calls about many partitions with a result for each: the partitions share one timeout, and an
error of one keeps no other from its result. The tests run in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from oncelog_client import KafkaError, RetriableError, TopicPartition
from oncelog_client.admin.records import delete_records, delete_records_of_each
from oncelog_client.core.client_config import admin_config
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.log_offsets import list_offsets_of_each
from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.errors import ErrorCode
from tests.client.scripted_broker import ScriptedBroker, messages, simulated

TIMEOUT_MS = 2_000
ERRORS = {
    **dict.fromkeys(("down-1", "down-2", "down-3"), ErrorCode.LEADER_NOT_AVAILABLE),
    "refused": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
TOPICS = (*ERRORS, "good")
OFFSET = 7
PLACES = {topic: TopicPartition(topic, 0) for topic in TOPICS}


async def _list(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> Mapping[Any, Any]:
    found = await list_offsets_of_each(cluster, wanted, TIMEOUT_MS, read_committed=False)
    return {place: getattr(result, "offset", result) for place, result in found.items()}


async def _delete(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> Mapping[Any, Any]:
    return await delete_records_of_each(cluster, wanted, TIMEOUT_MS)


def _offsets(topic: str) -> Any:
    m = messages(ApiKey.LIST_OFFSETS)
    row = m.ListOffsetsPartitionResponse(0, ERRORS.get(topic, 0), timestamp=-1, offset=OFFSET)
    return m.ListOffsetsTopicResponse(topic, [row])


def _deletions(topic: str) -> Any:
    m = messages(ApiKey.DELETE_RECORDS)
    row = m.DeleteRecordsPartitionResult(0, OFFSET, ERRORS.get(topic, 0))
    return m.DeleteRecordsTopicResult(topic, [row])


CALLS: dict[ApiKey, tuple[Callable[..., Awaitable[Mapping[Any, Any]]], Callable[[str], Any]]] = {
    ApiKey.LIST_OFFSETS: (_list, _offsets),
    ApiKey.DELETE_RECORDS: (_delete, _deletions),
}


@pytest.mark.parametrize("api", CALLS, ids=lambda api: api.name)
def test_unavailable_partitions_share_one_timeout(api: ApiKey) -> None:
    call, row_of = CALLS[api]

    def script(asked: ApiKey, request: Any) -> Any:
        if asked is not api:
            return None
        rows = [row_of(topic.name) for topic in request.topics]
        return APIS[api].response(topics=rows)

    broker = ScriptedBroker(script)

    async def scenario() -> tuple[Mapping[Any, Any], float]:
        cluster = Cluster(admin_config(["broker:9092"], {}), auto_create=False)
        await cluster.start(timeout_ms=TIMEOUT_MS)
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        results = await call(cluster, dict.fromkeys(PLACES.values(), -1))
        took_s = loop.time() - start_s
        await cluster.close()
        return results, took_s

    results, took_s = simulated(broker, scenario)
    assert results.keys() == set(PLACES.values())
    assert results[PLACES["good"]] == OFFSET
    for topic, code in ERRORS.items():
        error = results[PLACES[topic]]
        assert isinstance(error, KafkaError)
        assert error.code == code
        assert isinstance(error, RetriableError) == topic.startswith("down")
    assert took_s <= TIMEOUT_MS / 1000 + 0.5
    # A partition with a result is not requested again.
    asked = [request for _, key, request in broker.requests if key is api]
    assert [topic.name for topic in asked[-1].topics] == ["down-1", "down-2", "down-3"]


def test_a_row_that_was_not_requested_is_no_result() -> None:
    def script(asked: ApiKey, request: Any) -> Any:
        if asked is not ApiKey.DELETE_RECORDS:
            return None
        return APIS[asked].response(topics=[_deletions("good"), _deletions("other")])

    async def scenario() -> list[Mapping[Any, Any]]:
        cluster = Cluster(admin_config(["broker:9092"], {}), auto_create=False)
        await cluster.start(timeout_ms=TIMEOUT_MS)
        wanted = {PLACES["good"]: -1}
        calls = (delete_records, delete_records_of_each)
        results: list[Mapping[Any, Any]] = [
            await call(cluster, wanted, TIMEOUT_MS) for call in calls
        ]
        await cluster.close()
        return results

    assert simulated(ScriptedBroker(script), scenario) == [{PLACES["good"]: OFFSET}] * 2
