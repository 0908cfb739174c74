"""`oncelog topics` against a running broker."""

from __future__ import annotations

import pytest

from oncelog_client.cli.topic_lookup import TopicNames
from tests.client.cli.conftest import CommandLine, led


def test_a_topic_is_created_described_altered_and_deleted(
    command_line: CommandLine, topic: str
) -> None:
    assert {"topic": topic} in command_line.json("topics", "--list")
    described = command_line.json("topics", "--describe", "--topic", topic)
    assert [row["partition"] for row in described] == [0, 1]
    assert all(row["isr"] == row["replicas"] == [row["leader"]] for row in described)

    command_line.text("topics", "--alter", "--topic", topic, "--partitions", "3")
    command_line.settled(led(3), "topics", "--describe", "--topic", topic)

    command_line.text("topics", "--delete", "--topic", topic)
    command_line.settled(lambda rows: {"topic": topic} not in rows, "topics", "--list")


def test_for_a_pipe_columns_are_aligned_under_a_heading(
    command_line: CommandLine, topic: str
) -> None:
    heading, *rows = command_line.text("topics", "--describe", "--topic", topic).splitlines()
    assert heading.split()[:3] == ["TOPIC", "PARTITION", "LEADER"]
    assert [row.split()[:2] for row in rows] == [[topic, "0"], [topic, "1"]]


def test_a_setting_is_given_at_creation(command_line: CommandLine, name: str) -> None:
    command_line.text("topics", "--create", "--topic", name, "--config", "retention.ms=60000")
    set_by_us = [("retention.ms", "60000")]
    command_line.settled(
        lambda rows: [(row["name"], row["value"]) for row in rows] == set_by_us,
        *("config", "--describe", "--topic", name),
    )


def test_a_description_shows_the_topics_own_settings(command_line: CommandLine, name: str) -> None:
    given = ("--config", "retention.ms=60000", "--config", "cleanup.policy=compact")
    command_line.text("topics", "--create", "--topic", name, "--partitions", "1", *given)
    (row,) = command_line.settled(led(1), "topics", "--describe", "--topic", name)
    assert row["configs"] == {"cleanup.policy": "compact", "retention.ms": "60000"}
    shown = command_line.text("topics", "--describe", "--topic", name)
    assert "cleanup.policy=compact,retention.ms=60000" in shown


def test_an_existing_topic_is_refused_without_if_not_exists(
    command_line: CommandLine, topic: str
) -> None:
    assert "TOPIC_ALREADY_EXISTS" in command_line.refused("topics", "--create", "--topic", topic)
    for existing in (topic, "__consumer_offsets"):
        command_line.text("topics", "--create", "--topic", existing, "--if-not-exists")


def test_a_missing_topic_is_refused_without_if_exists(command_line: CommandLine, name: str) -> None:
    for verb in ("--describe", "--delete"):
        assert name in command_line.refused("topics", verb, "--topic", name)
        command_line.text("topics", verb, "--topic", name, "--if-exists")


@pytest.mark.parametrize(
    "arguments",
    [(), ("--list", "--create"), ("--create",), ("--alter", "--topic", "t")],
    ids=["no verb", "two verbs", "no topic", "no partitions"],
)
def test_a_call_that_does_not_say_what_to_do_is_a_usage_error(
    command_line: CommandLine, arguments: tuple[str, ...]
) -> None:
    assert command_line.call("topics", *arguments).exit_code == 2


def test_a_pattern_is_a_list_of_regular_expressions() -> None:
    pattern = TopicNames("--topic", ["orders-.*,bills"])
    assert pattern.fullmatch("orders-1")
    assert pattern.fullmatch("bills")
    assert not pattern.fullmatch("bills-1")


def test_the_filters_of_kafkas_tool_show_some_partitions(
    command_line: CommandLine, topic: str
) -> None:
    """A topic on a single broker has all its replicas in sync, and that is min.insync.replicas."""

    def shown(*filters: str) -> list[int]:
        rows = command_line.json("topics", "--describe", "--topic", topic, *filters)
        return [row["partition"] for row in rows]

    assert shown("--at-min-isr-partitions") == [0, 1]
    assert shown("--under-replicated-partitions") == []
    assert shown("--unavailable-partitions", "--under-min-isr-partitions") == []
    assert shown("--unavailable-partitions", "--at-min-isr-partitions") == [0, 1]
    set_by_us = ("config", "--alter", "--topic", topic, "--add-config", "min.insync.replicas=2")
    command_line.text(*set_by_us)
    under = ("--describe", "--topic", topic, "--under-min-isr-partitions")
    command_line.settled(lambda rows: len(rows) == 2, "topics", *under)
    assert "needs --describe" in command_line.refused(
        "topics", "--list", "--under-min-isr-partitions"
    )
