"""The topic `__oncelog_sink`. Its committed offsets are the progress of Spark's exactly-once
sinks."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog_client import (
    Admin,
    ConfigResource,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ResourceType,
    TopicPartition,
    TransactionGroup,
)
from oncelog_protocol.errors import ErrorCode
from tests.harness.broker import Oncelog

SINK = TopicPartition("__oncelog_sink", 0)


async def test_the_sink_topic_is_created_by_the_first_sink_commit_and_refuses_producers(
    tmp_path: Path,
) -> None:
    with Oncelog(tmp_path, QUICK) as broker:
        async with Admin(broker.address) as admin, Producer(broker.address) as producer:
            group = TransactionGroup("orders", 1)
            parent = await admin.init_producer("orders", group)
            assert SINK.topic not in await admin.list_topics(list_internal=True)
            await admin.commit_group("orders", parent, [], {SINK: OffsetAndMetadata(1, "{}")})
            assert await admin.list_group_offsets("orders") == {SINK: OffsetAndMetadata(1, "{}")}
            listed = (await admin.list_topics(list_internal=True))[SINK.topic]
            assert listed.is_internal
            described = await admin.describe_topics([SINK.topic])
            assert len(described[SINK.topic].partitions) == 1
            resource = ConfigResource(ResourceType.TOPIC, SINK.topic)
            configs = await admin.describe_configs([resource])
            assert configs[resource]["cleanup.policy"].value == "compact"
            with pytest.raises(KafkaError) as refused:
                await (await producer.send(SINK.topic, b"no"))
            assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
