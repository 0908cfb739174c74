"""`oncelog config` against a running broker."""

from __future__ import annotations

import pytest

from tests.client.cli.conftest import CommandLine


def settle(command_line: CommandLine, topic: str, expected: dict[str, str]) -> None:
    """Wait until the topic has these settings and no others."""
    command_line.settled(
        lambda rows: {row["name"]: row["value"] for row in rows} == expected,
        *("config", "--describe", "--topic", topic),
    )


def test_default_settings_are_shown_only_with_all(command_line: CommandLine, topic: str) -> None:
    settle(command_line, topic, {})
    shown = command_line.json("config", "--describe", "--topic", topic, "--all")
    assert "retention.ms" in {row["name"] for row in shown}


def test_settings_are_added_and_deleted(command_line: CommandLine, topic: str) -> None:
    alter = ("config", "--alter", "--entity-type", "topics", "--entity-name", topic)
    command_line.text(*alter, "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]")
    settle(command_line, topic, {"retention.ms": "1000", "cleanup.policy": "compact,delete"})
    command_line.text(*alter, "--delete-config", "retention.ms,cleanup.policy")
    settle(command_line, topic, {})


def test_a_bad_value_is_refused_with_the_brokers_reason(
    command_line: CommandLine, topic: str
) -> None:
    flags = ("--alter", "--topic", topic, "--add-config", "retention.ms=soon")
    assert "retention.ms" in command_line.refused("config", *flags)


@pytest.mark.parametrize("entity", ["topic", "broker", "broker-defaults"])
def test_an_unknown_name_to_delete_is_refused_with_the_nearest_name(
    command_line: CommandLine, topic: str, entity: str
) -> None:
    """A former defect: the call looked like a success. Brokers ignore the name, Kafka's too."""
    flags = {
        "topic": ("--topic", topic),
        "broker": ("--broker", "1"),
        "broker-defaults": ("--broker-defaults",),
    }[entity]
    typo, near = ("retention.mss", "retention.ms")
    if entity != "topic":
        typo, near = f"log.{typo}", f"log.{near}"
    refused = command_line.refused("config", "--alter", *flags, "--delete-config", typo)
    assert f"{typo}: a {entity.partition('-')[0]} has no setting of this name" in refused
    assert f"Did you mean '{near}'?" in refused


def test_a_setting_that_is_not_set_is_deleted_without_an_error(
    command_line: CommandLine, topic: str
) -> None:
    for flags in (
        ("--topic", topic, "--delete-config", "retention.ms"),
        ("--broker-defaults", "--delete-config", "log.retention.ms"),
        ("--broker", "1", "--delete-config", "leader.replication.throttled.rate"),
        ("--broker-defaults", "--delete-config", "follower.replication.throttled.rate"),
    ):
        assert flags[-1] in command_line.text("config", "--alter", *flags)


def test_the_settings_of_a_broker_are_shown(command_line: CommandLine) -> None:
    shown = command_line.json("config", "--describe", "--entity-type", "brokers", "--all")
    assert "num.partitions" in {row["name"] for row in shown}


@pytest.mark.parametrize("flags", [("--broker", "1"), ("--broker-defaults",)], ids=("one", "all"))
def test_dynamic_settings_of_brokers_are_added_and_deleted(
    command_line: CommandLine, flags: tuple[str, ...]
) -> None:
    def settled(value: str | None) -> None:
        command_line.settled(
            lambda rows: {row["name"]: row["value"] for row in rows}.get("log.roll.ms") == value,
            *("config", "--describe", *flags),
        )

    command_line.text("config", "--alter", *flags, "--add-config", "log.roll.ms=70000")
    settled("70000")
    command_line.text("config", "--alter", *flags, "--delete-config", "log.roll.ms")
    settled(None)
    change = ("--add-config", "log.dirs=/x")
    refused = command_line.refused("config", "--alter", *flags, *change)
    assert "Cannot update these configs dynamically: [log.dirs]" in refused


def test_a_broker_that_does_not_exist_is_not_waited_for(command_line: CommandLine) -> None:
    """--give-up-after does not apply, because fresh metadata show at once that the broker is
    missing."""
    flags = ("--describe", "--broker", "4711", "--give-up-after", "600")
    assert "there is no broker 4711" in command_line.refused("config", *flags)


@pytest.mark.parametrize(
    "arguments",
    [("--describe",), ("--describe", "--alter", "--topic", "t"), ("--alter", "--topic", "t")],
    ids=["no entity", "two verbs", "nothing to alter"],
)
def test_a_call_that_does_not_say_what_to_do_is_a_usage_error(
    command_line: CommandLine, arguments: tuple[str, ...]
) -> None:
    assert command_line.call("config", *arguments).exit_code == 2
