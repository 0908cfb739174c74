"""kafka-configs.sh of the image prints the lines of Kafka's tool of this name."""

from __future__ import annotations

import pytest

from tests.harness.kafka.compared import BROKER, ToolPair, run_ours
from tests.harness.waiting import wait_until

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


def test_the_credentials_of_a_user(tools: ToolPair, name: str) -> None:
    user = ("--entity-type", "users", "--entity-name", name)

    def same(*arguments: str) -> list[str]:
        return tools.check_same("kafka-configs", *SERVER, *arguments).out

    assert same("--describe", *user) == []
    added = "SCRAM-SHA-256=[iterations=8192,password=a-secret]"
    assert same("--alter", *user, "--add-config", added) == [
        f"Completed updating config for user {name}."
    ]

    def kafka_has(*mechanisms: str) -> bool:
        """Return True if Kafka's broker, which responds before it knows, has the credentials."""
        arguments = ("--bootstrap-server", tools.kafka, "--describe", "--user", name)
        printed = tools.kafka_tool("kafka-configs", *arguments).stdout
        return printed.count("iterations=") == len(mechanisms) and all(
            mechanism in printed for mechanism in mechanisms
        )

    wait_until(lambda: kafka_has("SCRAM-SHA-256"), "the credential")
    assert same("--describe", *user) == [
        f"SCRAM credential configs for user-principal '{name}' are SCRAM-SHA-256=iterations=8192"
    ]
    same("--describe", "--user", name)
    same("--alter", "--user", name, "--add-config", "SCRAM-SHA-512=[password=x=y]")
    wait_until(lambda: kafka_has("SCRAM-SHA-256", "SCRAM-SHA-512"), "both credentials")
    same("--alter", *user, "--delete-config", "SCRAM-SHA-256")
    wait_until(lambda: kafka_has("SCRAM-SHA-512"), "the other credential")
    assert same("--describe", *user) == [
        f"SCRAM credential configs for user-principal '{name}' are SCRAM-SHA-512=iterations=4096"
    ]
    same("--alter", *user, "--delete-config", "SCRAM-SHA-256")
    same("--alter", *user, "--delete-config", "SCRAM-SHA-512")
    wait_until(kafka_has, "no credential")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--add-config", "nosuch=1"),
        ("--add-config", "SCRAM-SHA-1=[password=x]"),
        ("--delete-config", "nosuch"),
        ("--delete-config", "nosuch,other"),
        ("--add-config", "SCRAM-SHA-256=[iterations=4095,password=x]"),
        ("--add-config", "SCRAM-SHA-256=[iterations=,password=x]"),
        ("--add-config", "SCRAM-SHA-256=[password=x],producer_byte_rate=1"),
        (),
    ],
    ids=" ".join,
)
def test_a_command_line_about_users_that_is_refused(
    tools: ToolPair, name: str, arguments: tuple[str, ...]
) -> None:
    user = ("--alter", "--entity-type", "users")
    tools.check_same("kafka-configs", *SERVER, *user, "--entity-name", name, *arguments)


@pytest.mark.parametrize("default", ["--entity-default", ""])
def test_a_credential_needs_the_name_of_its_user(tools: ToolPair, default: str) -> None:
    credential = ("--add-config", "SCRAM-SHA-256=[password=x]")
    user = ("--alter", "--entity-type", "users", *default.split())
    tools.check_same("kafka-configs", *SERVER, *user, *credential)


@pytest.mark.parametrize(
    "credential", ["passwd=a-secret", "iterations=20000,password=a-secret", "password="]
)
def test_an_error_about_a_credential_does_not_show_the_password(
    tools: ToolPair, name: str, credential: str
) -> None:
    """Kafka's tool prints it, so only the last lines and the exit code are the same."""
    user = ("--alter", "--user", name, "--add-config", f"SCRAM-SHA-256=[{credential}]")
    theirs, ours = tools.both("kafka-configs", *SERVER, *user)
    assert ours.status == theirs.status == 1
    assert "a-secret" not in "".join(ours.errors)
    if len(theirs.errors) > 1:
        assert ours.errors[1:] == theirs.errors[1:]
