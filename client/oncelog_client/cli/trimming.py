"""Checks that the broker will accept a trim, before the trim is shown or executed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oncelog_client.admin import Admin, ConfigResource, ResourceType
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.offset_ranges import Kind, Position
from oncelog_client.errors import AuthorizationError
from oncelog_client.values import TopicPartition

POLICY: Final = "cleanup.policy"
DELETE: Final = "delete"


async def check_trim(admin: Admin, topic: str, places: list[TopicPartition], to: Position) -> None:
    """Raise Failed if DeleteRecords (KIP-107) would be refused: for an internal topic, a topic that
    is only compacted, an offset beyond the end of a log."""
    if (await admin.describe_topics([topic]))[topic].is_internal:
        raise Failed(
            f"INVALID_TOPIC_EXCEPTION: {topic} is an internal topic; its records are not deleted by"
            " position. Nothing was changed"
        )
    policy = await _cleanup_policy(admin, topic)
    if policy is not None and DELETE not in policy:
        given = ",".join(policy)
        raise Failed(
            f"POLICY_VIOLATION: {topic} is compacted ({POLICY}={given}); its records are not"
            " deleted by position, only by newer records with the same key. Nothing was changed. To"
            f" allow it: oncelog config --alter --topic {topic}"
            f" --add-config {POLICY}=[{','.join((*filter(None, policy), DELETE))}]"
        )
    await _check_not_beyond(admin, places, to)


async def _cleanup_policy(admin: Admin, topic: str) -> list[str] | None:
    """Return the parts of the topic's cleanup.policy. Return None if the policy is unknown, for
    example because the client is not authorized to describe settings."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        found = (await admin.describe_configs([resource]))[resource].get(POLICY)
    except AuthorizationError:
        return None
    return None if found is None else [part.strip() for part in (found.value or "").split(",")]


async def _check_not_beyond(admin: Admin, places: Iterable[TopicPartition], to: Position) -> None:
    if to.kind is not Kind.OFFSET:
        return
    ends = await admin.list_offsets(dict.fromkeys(places, "latest"))
    for place, end in ends.items():
        if to.value > end.offset:
            advice = "Give --before end"
            if len(ends) > 1:
                advice += ", or a partition with -p"
            raise Failed(
                f"OFFSET_OUT_OF_RANGE: {place} ends at offset {end.offset}, {to.value} is beyond;"
                f" nothing was changed. {advice}"
            )
