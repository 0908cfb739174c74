"""kafka-configs.sh of the image prints the lines of Kafka's tool of this name."""

from __future__ import annotations

import pytest

from tests.harness.kafka.compared import BROKER, ToolPair, run_ours

SERVER = ("--bootstrap-server", BROKER)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        SERVER,
        (*SERVER, "--nosuch"),
        (*SERVER, "--describe"),
        (*SERVER, "--describe", "--alter", "--topic", "t"),
        (*SERVER, "--describe", "--entity-type", "nosuch"),
        (*SERVER, "--alter", "--topic", "t"),
        (*SERVER, "--alter", "--topic", "t", "--add-config", "retention.ms"),
        (*SERVER, "--describe", "--topic", "nosuch"),
        (*SERVER, "--describe", "--broker", "7"),
        (*SERVER, "--describe", "--entity-type", "brokers", "--entity-name", "1"),
        (*SERVER, "--describe", "--entity-type", "users"),
        (*SERVER, "--describe", "--entity-type", "clients"),
    ],
    ids=" ".join,
)
def test_a_command_line_about_no_topic(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    tools.check_same("kafka-configs", *arguments)


def test_the_settings_of_a_topic(tools: ToolPair, name: str) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    entity = ("--entity-type", "topics", "--entity-name", name)

    def same(*arguments: str) -> list[str]:
        return tools.check_same("kafka-configs", *SERVER, *arguments).out

    assert same("--describe", *entity) == [f"Dynamic configs for topic {name} are:"]
    changed = "max.message.bytes=5000,cleanup.policy=[compact,delete]"
    assert same("--alter", *entity, "--add-config", changed) == [
        f"Completed updating config for topic {name}."
    ]
    assert len(same("--describe", "--topic", name)) == 3
    same("--alter", "--topic", name, "--delete-config", "max.message.bytes,cleanup.policy")
    same("--describe", "--topic", name)
    same("--alter", "--topic", name, "--add-config", "nosuch=1")
    same("--alter", "--topic", name, "--add-config", "retention.ms=soon")
    same("--alter", "--topic", "nosuch", "--add-config", "retention.ms=1")


def test_all_settings_of_a_topic_and_a_broker(tools: ToolPair, name: str) -> None:
    """Asked of the same broker, both tools print the same lines."""
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    for address in (tools.kafka, tools.oncelog):
        for entity in (("--topic", name), ("--broker", "1")):
            arguments = ("--bootstrap-server", address, "--describe", *entity, "--all")
            theirs = tools.kafka_tool("kafka-configs", *arguments)
            ours = run_ours("kafka-configs", *arguments)
            assert ours.stdout == theirs.stdout
            assert len(ours.lines) > 20
