"""The messages of error codes are those of Kafka's Java client."""

from __future__ import annotations

from oncelog_client.kafka_tools.failures import java_error
from oncelog_server.default_messages import DEFAULT_MESSAGES


def test_the_messages_are_those_of_the_java_client() -> None:
    assert {code: java_error(code).message for code in DEFAULT_MESSAGES} == DEFAULT_MESSAGES
