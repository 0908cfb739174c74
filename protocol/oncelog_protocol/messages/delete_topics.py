"""DeleteTopics (key 20, versions 1 to 6): deletes topics.

* v1: throttle time (KIP-124)
* v4: flexible
* v5: a message with the error (KIP-599)
* v6: topics by id (KIP-516)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int16, int32, string, uuid


@struct
class DeleteTopicState:
    """A topic by name or by id."""

    name: str | None = string(since=6, nullable=True, default=None)
    topic_id: bytes = uuid(since=6)


@api_message(ApiKey.DELETE_TOPICS)
class DeleteTopicsRequest:
    """Topics to delete."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, since=6)
    topic_names: list[str] = array(string, until=5)
    timeout_ms: int = int32()


@struct
class DeletableTopicResult:
    """The outcome for one topic."""

    name: str | None = string(nullable_since=6)
    topic_id: bytes = uuid(since=6)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable=True, default=None)


@api_message(ApiKey.DELETE_TOPICS)
class DeleteTopicsResponse:
    """The outcome for each topic."""

    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
