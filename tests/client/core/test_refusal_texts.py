"""The text of an error about a resource: the broker's message, or the name that it lacks."""

from __future__ import annotations

import pytest

from oncelog_client.core.refusal_texts import refusal_text
from oncelog_protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("code", "message", "text"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.", "orders"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, None, "orders"),
        (ErrorCode.INVALID_CONFIG, "Invalid value 5", "Invalid value 5"),
        (ErrorCode.INVALID_CONFIG, "", "orders"),
    ],
)
def test_a_message_without_a_name_is_replaced_by_the_name(
    code: ErrorCode, message: str | None, text: str
) -> None:
    assert refusal_text(code, "orders", message) == text
