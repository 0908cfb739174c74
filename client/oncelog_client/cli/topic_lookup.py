"""The partitions of a topic, or at once that there is no such topic: a reader would wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from oncelog_client.cli.connecting import connected_admin
from oncelog_client.client_config import AdminSettings
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


class TopicNames:
    """Kafka's include list: regular expressions, a comma meaning or, which match a whole name.

    They are RE2's, matched in linear time. Raises click.UsageError for what is none.
    """

    def __init__(self, option: str, patterns: Iterable[str]) -> None:
        from oncelog_protocol.pattern import Pattern, PatternError  # few calls have a pattern

        self._option = option
        self._text = "|".join(pattern.strip().replace(",", "|") for pattern in patterns)
        try:
            self._pattern = Pattern(self._text)
        except PatternError as error:
            raise self._refused(error) from None

    def fullmatch(self, name: str, /) -> bool:
        """Return whether the name of a topic matches."""
        from oncelog_protocol.pattern import PatternError

        try:
            return self._pattern.matches(name)
        except PatternError as error:
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> click.UsageError:
        return click.UsageError(f"{self._option} {self._text[:80]!r}: {error}")
