"""The messages that Kafka's `Errors` has for an error code. Some APIs send them to the client if
the error has no message of its own."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused

DEFAULT_MESSAGES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the"
        " message was sent to an incompatible broker. See the broker logs for more details."
    ),
}


def message_of(refused: Refused) -> str | None:
    """Return the error's own message, or Kafka's message for its code. Return None for a code
    that is not in DEFAULT_MESSAGES."""
    return refused.message or DEFAULT_MESSAGES.get(refused.code)
