"""DeleteTopics (key 20), versions 1 to 6."""

from __future__ import annotations

from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import array, int16, int32, string, uuid


@struct
class DeleteTopicState:
    """Delete topic state of DeleteTopicsRequest."""

    name: str | None = string(since=6, nullable_since=6, default=None)
    topic_id: bytes = uuid(since=6)


@message(range(1, 7), flexible_since=4)
class DeleteTopicsRequest:
    """The request of DeleteTopics, versions 1 to 6."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, since=6)
    topic_names: list[str] = array(string, until=5)
    timeout_ms: int = int32()


@struct
class DeletableTopicResult:
    """Deletable topic result of DeleteTopicsResponse."""

    name: str | None = string(nullable_since=6)
    topic_id: bytes = uuid(since=6)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable_since=5, default=None)


@message(range(1, 7), flexible_since=4)
class DeleteTopicsResponse:
    """The response of DeleteTopics, versions 1 to 6."""

    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
