"""The settings of many topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from oncelog_client.cli.cluster_state import AT_ONCE
from oncelog_client.errors import KafkaError
from oncelog_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from oncelog_client.admin import Admin, ConfigEntry


async def topic_settings(
    admin: Admin, topics: Iterable[str], names: Collection[str] | None = None
) -> dict[str, dict[str, ConfigEntry]]:
    """Return the settings of topics by topic and name: those in `names`, or all. A request is for
    AT_ONCE topics. Topics that are deleted meanwhile are left out. Raises KafkaError."""
    wanted = sorted(set(topics))
    found: dict[str, dict[str, ConfigEntry]] = {}
    for start in range(0, len(wanted), AT_ONCE):
        found |= await _part(admin, set(wanted[start : start + AT_ONCE]), names)
    return found


async def _part(
    admin: Admin, topics: set[str], names: Collection[str] | None
) -> dict[str, dict[str, ConfigEntry]]:
    from oncelog_client.admin import ConfigResource, ResourceType

    try:
        described = await admin.describe_configs(
            (ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(topics)), names=names
        )
    except KafkaError as error:
        left = topics & (await admin.list_topics(list_internal=True)).keys()
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or left == topics:
            raise
        return await _part(admin, left, names) if left else {}
    return {resource.name: entries for resource, entries in described.items()}
