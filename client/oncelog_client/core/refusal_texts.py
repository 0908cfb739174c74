"""The text of an error about a resource, from a response."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.errors import ErrorCode

# A broker's message for these codes is Kafka's text of the code, without the name of the resource.
_WITHOUT_NAME: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def refusal_text(code: int, resource: str, message: str | None) -> str:
    """Return the broker's message, or the name of the resource if the message has no name."""
    return resource if code in _WITHOUT_NAME else message or resource
