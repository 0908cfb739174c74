"""An administrative request to one broker knows what another broker has just acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.harness.cluster import Cluster

TOPIC_RESOURCE = 2
SET = 0
ROUNDS = 30


def test_each_broker_changes_at_once_what_another_has_created(cluster: Cluster) -> None:
    """Each request goes to another broker than the request before, after the response to it."""
    steps = [
        CreateTopicsRequest([CreatableTopic("t", 1, 3)]),
        CreatePartitionsRequest([CreatePartitionsTopic("t", 2, None)]),
        IncrementalAlterConfigsRequest(
            [AlterConfigsResource(TOPIC_RESOURCE, "t", [AlterableConfig("retention.ms", SET, "1")])]
        ),
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]),
    ]
    with ExitStack() as stack:
        wires = [
            stack.enter_context(cluster.connect(broker)) for broker in cluster.brokers.values()
        ]
        for number in range(ROUNDS * len(steps)):
            response = wires[number % len(wires)].call(steps[number % len(steps)])
            (row,) = _rows(response)
            assert row.error_code == ErrorCode.NONE, (number, row)


def _rows(response: Any) -> Sequence[Any]:
    """Return the results of the topics. Each API has a name of its own for them."""
    for name in ("topics", "results", "responses"):
        if hasattr(response, name):
            rows: Sequence[Any] = getattr(response, name)
            return rows
    raise AssertionError(response)
