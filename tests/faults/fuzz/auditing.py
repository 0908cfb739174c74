"""Requests for all state that the frames may have left, in every version, and a check of the
responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oncelog.testing.wire import Wire
from oncelog_protocol.apis import api_of
from oncelog_protocol.messages.describe_cluster import DescribeClusterRequest
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from oncelog_protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog_protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from oncelog_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from oncelog_protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from oncelog_protocol.messages.describe_transactions import DescribeTransactionsRequest
from oncelog_protocol.messages.list_config_resources import ListConfigResourcesRequest
from oncelog_protocol.messages.list_groups import ListGroupsRequest
from oncelog_protocol.messages.list_transactions import ListTransactionsRequest
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog_server.group.records import LONGEST_NAME_BYTES
from tests.faults.fuzz.frames import GROUPS, IDS, TOPICS


def audit(wire: Wire) -> int:
    """Request all state, and return the number of responses. Raises Closed, TimeoutError or
    ProtocolError if a response is missing or unreadable."""
    answers = 0
    listed = wire.call(ListGroupsRequest(), 2).groups
    groups = sorted({*GROUPS, *(group.group_id for group in listed)})[:100]
    transactions = wire.call(ListTransactionsRequest()).transaction_states
    ids = sorted({*IDS, *(transaction.transactional_id for transaction in transactions)})[:100]
    for request, versions in _requests(groups, ids):
        for version in versions:
            wire.call(request, version)
            answers += 1
    return answers


def _requests(groups: list[str], ids: list[str]) -> Iterator[tuple[Any, range]]:
    def all_versions(request: Any) -> tuple[Any, range]:
        return request, api_of(type(request)).versions

    fits = [group for group in groups if len(group.encode()) <= LONGEST_NAME_BYTES]
    yield all_versions(DescribeGroupsRequest(fits))
    yield all_versions(ListGroupsRequest())
    yield all_versions(ListTransactionsRequest())
    yield all_versions(DescribeTransactionsRequest(ids))
    yield MetadataRequest([], True), range(0, 1)
    yield MetadataRequest(None, True), range(1, 14)
    yield all_versions(DescribeClusterRequest())
    yield all_versions(DescribeLogDirsRequest(None))
    yield all_versions(DescribeTopicPartitionsRequest())
    yield all_versions(ListConfigResourcesRequest())
    resources = [DescribeConfigsResource(2, name, None) for name in TOPICS]
    resources.append(DescribeConfigsResource(4, "1", None))
    yield all_versions(DescribeConfigsRequest(resources, True, True))
    topics = [TopicRequest(name, [0, 1]) for name in TOPICS]
    yield all_versions(DescribeProducersRequest(topics))
    for name in groups:
        yield OffsetFetchRequest(group_id=name, topics=None), range(2, 8)
        many = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None)])
        yield many, range(8, 10)
