"""Selects topics by a regular expression, as Kafka's tools do."""

from __future__ import annotations

import re

from oncelog_client.kafka_tools.connecting import Connection
from oncelog_client.kafka_tools.failures import ILLEGAL_ARGUMENT, JavaError
from oncelog_protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)


async def listed(connection: Connection) -> list[MetadataResponseTopic]:
    """Return all topics, by name."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    response = await connection.call_any(request, MetadataResponse)
    return sorted(response.topics, key=lambda topic: topic.name or "")


async def matching(
    connection: Connection, pattern: str | None, *, exclude_internal: bool
) -> list[str]:
    """Return the names of the topics that match the pattern, or of all topics without a pattern.
    Raises JavaError for an invalid pattern."""
    allowed = None if pattern is None else topic_pattern(pattern)
    return [
        topic.name
        for topic in await listed(connection)
        if topic.name
        and not (topic.is_internal and exclude_internal)
        and (allowed is None or allowed.fullmatch(topic.name))
    ]


def topic_pattern(text: str) -> re.Pattern[str]:
    """Return the expression of a list of topics: commas separate alternatives, and quotes around
    the list are left out (Kafka's TopicFilter). Raises JavaError for an invalid expression."""
    expression = text.strip().replace(",", "|").replace(" ", "").strip("'\"")
    try:
        return re.compile(expression)
    except re.error:
        raise JavaError(
            "java.lang.RuntimeException", f"{expression} is an invalid regex."
        ) from None


def ensure_found(found: object, requested: str | None, *, if_exists: bool) -> None:
    """Raise JavaError if topics were requested and none was found."""
    if requested and not found and not if_exists:
        raise JavaError(ILLEGAL_ARGUMENT, f"Topic '{requested}' does not exist as expected")
