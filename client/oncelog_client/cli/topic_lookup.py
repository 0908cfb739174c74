"""The partitions of a topic, or at once that there is no such topic: a reader would wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncelog_client.cli.connecting import connected_admin
from oncelog_client.config import AdminSettings
from oncelog_client.values import TopicPartition


async def find_partitions(
    bootstrap_server: str, settings: Mapping[str, Any], topic: str, give_up_after: float
) -> list[TopicPartition]:
    """Asked by an admin client that has those of a consumer's settings that all clients have.

    Raises KafkaError (UNKNOWN_TOPIC_OR_PARTITION) for a topic that does not exist.
    """
    shared = {
        name: value for name, value in settings.items() if name in AdminSettings.__annotations__
    }
    async with connected_admin(bootstrap_server, shared, give_up_after) as admin:
        described = await admin.describe_topics([topic])
    return [TopicPartition(topic, info.partition) for info in described[topic].partitions]
