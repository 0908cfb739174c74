"""Checks that a topic exists, because a consumer would wait for a missing topic. Also matches names
of topics with patterns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import click

from oncelog_client.admin import Admin
from oncelog_client.cli.connecting import connected_admin
from oncelog_client.cli.missing_rights import name_missing_right
from oncelog_client.core.client_config import AdminSettings
from oncelog_client.errors import KafkaError
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode


async def find_partitions(
    bootstrap_server: str, settings: Mapping[str, Any], topic: str, give_up_after: float
) -> list[TopicPartition]:
    """Return the partitions of a topic. The lookup uses an admin client, with the `settings` that
    apply to an admin client. The caller will read the partitions.

    `give_up_after`: the flag with this name, in seconds. Raises KafkaError
    (UNKNOWN_TOPIC_OR_PARTITION) for a topic that does not exist. The error's message suggests the
    nearest existing name.
    """
    async with _admin(bootstrap_server, settings, give_up_after) as admin:
        try:
            described = await admin.describe_topics([topic])
        except KafkaError as error:
            name_missing_right(error, admin.config, "READ")
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                near = await _near(admin, topic)
                error.reword(f"{error.message}.{near}" if near else error.message)
            raise
    return [TopicPartition(topic, info.partition) for info in described[topic].partitions]


async def warning_if_new(
    bootstrap_server: str, settings: Mapping[str, Any], topic: str, give_up_after: float
) -> str:
    """Return the message for the creation of a topic that does not exist yet, with the nearest
    existing name. Return an empty string if the topic exists, or if the request to describe it
    fails with another error."""
    async with _admin(bootstrap_server, settings, give_up_after) as admin:
        try:
            await admin.describe_topics([topic])
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return ""
            return f"created topic {topic}.{await _near(admin, topic)}".removesuffix(".")
    return ""


def _admin(
    bootstrap_server: str, settings: Mapping[str, Any], give_up_after: float
) -> AbstractAsyncContextManager[Admin]:
    shared = {
        name: value for name, value in settings.items() if name in AdminSettings.__annotations__
    }
    return connected_admin(bootstrap_server, shared, give_up_after)


async def _near(admin: Admin, topic: str) -> str:
    from oncelog_client.cli.near_names import near_topic

    with suppress(KafkaError):
        return await near_topic(admin, topic)
    return ""


class TopicNames:
    """Kafka's include list: regular expressions that a whole name must match. A comma separates
    alternatives. The syntax is that of RE2, and a match takes linear time. Raises click.UsageError
    for an invalid expression."""

    def __init__(self, option: str, patterns: Iterable[str]) -> None:
        from oncelog_protocol.pattern import Pattern, PatternError  # rarely needed

        self._option = option
        self._text = "|".join(pattern.strip().replace(",", "|") for pattern in patterns)
        try:
            self._pattern = Pattern(self._text)
        except PatternError as error:
            raise self._refused(error) from None

    def fullmatch(self, name: str, /) -> bool:
        """Return True if the name of a topic matches."""
        from oncelog_protocol.pattern import PatternError

        try:
            return self._pattern.matches(name)
        except PatternError as error:
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> click.UsageError:
        return click.UsageError(f"{self._option} {self._text[:80]!r}: {error}")
