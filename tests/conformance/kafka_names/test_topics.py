"""kafka-topics.sh of the image prints the lines of Kafka's tool of this name."""

from __future__ import annotations

import pytest

from tests.harness.kafka.compared import BROKER, ToolPair

# The id of no topic.
ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SERVER = ("--bootstrap-server", BROKER)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("--version",),
        ("--list",),
        ("--bootstrap-server",),
        (*SERVER, "--lsit"),
        (*SERVER, "--create"),
        (*SERVER, "--alter", "--topic", "t"),
        (*SERVER, "--list", "--create", "--topic", "t"),
        (*SERVER, "--list", "--if-exists"),
        (*SERVER, "--describe", "--if-exists"),
        (*SERVER, "--delete", "--topic", "t", "--config", "a=b"),
        (*SERVER, "--create", "--topic", "t", "--replica-assignment", "1", "--partitions", "1"),
        (*SERVER, "--describe", "--topics-with-overrides", "--unavailable-partitions"),
        (*SERVER, "--list", "--command-config", "/nosuch"),
        (*SERVER, "--list", "--topic", "nosuch", "--delete-config", "x"),
        (*SERVER, "--alter", "--topic", "t", "--delete-config", "x"),
        (*SERVER, "--describe", "--topic-id", "bad"),
        (*SERVER, "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        (*SERVER, "--describe", "--topic-id", "!!!!"),
        (*SERVER, "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ"),
        (*SERVER, "--describe", "--if-exists", "--topic", "nosuch", "--topic-id", ID),
        (*SERVER, "--describe", "--topic", "nosuch", "--topic-id", ID),
    ],
    ids=" ".join,
)
def test_a_refused_command_line(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    tools.check_same("kafka-topics", *arguments)


def test_topics_from_their_creation_to_their_deletion(tools: ToolPair, name: str) -> None:
    def same(*arguments: str) -> list[str]:
        return tools.check_same("kafka-topics", *SERVER, *arguments).out

    assert same("--create", "--topic", name, "--partitions", "2") == [f"Created topic {name}."]
    assert same("--list", "--topic", f"{name}.*") == [name]
    same("--create", "--topic", name)
    assert same("--create", "--topic", name, "--if-not-exists") == []
    assert len(same("--describe", "--topic", name)) == 3
    same("--describe", "--topic", name, "--under-replicated-partitions")
    same("--describe", "--topic", name, "--at-min-isr-partitions")
    same("--describe", "--topic", name, "--unavailable-partitions", "--exclude-internal")
    same("--alter", "--topic", name, "--partitions", "1")
    same("--alter", "--topic", name, "--partitions", "4")
    same("--delete", "--topic", name)
    same("--describe", "--topic", name)
    same("--delete", "--topic", name)
    same("--delete", "--topic", name, "--if-exists")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--topic", "a b"),
        ("--topic", ""),
        ("--topic", "x", "--topic", "y"),
        ("--topic", "x", "--partitions", "0"),
        ("--topic", "x", "--partitions", "two"),
        ("--topic", "x", "--replication-factor", "0"),
        ("--topic", "x", "--replica-assignment", "1:1"),
        ("--topic", "x", "--replica-assignment", "1,1:2"),
        ("--topic", "x", "--replica-assignment", "1,,1"),
        ("--topic", "x", "--replica-assignment", "1:x"),
        ("--topic", "x", "--config", "retention.ms"),
        ("--topic", "x", "--config", "retention.ms=soon"),
        ("--topic", "x", "--config", "nosuch=1"),
    ],
    ids=" ".join,
)
def test_a_refused_topic(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    refused = tools.check_same("kafka-topics", *SERVER, "--create", *arguments)
    assert refused.status == 1


@pytest.mark.parametrize("assignment", ["1,1,", "1:,1", ",", ""])
def test_empty_parts_at_the_end_of_an_assignment_are_left_out(
    tools: ToolPair, name: str, assignment: str
) -> None:
    topic = ("--create", "--topic", name, "--replica-assignment", assignment)
    assert tools.check_same("kafka-topics", *SERVER, *topic).status == 0
