"""kafka-console-producer.sh and kafka-console-consumer.sh of the image."""

from __future__ import annotations

import pytest

from tests.harness.kafka.compared import BROKER, ToolPair

SERVER = ("--bootstrap-server", BROKER)
TOPIC = (*SERVER, "--topic", "t")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("--version",),
        ("--nosuch",),
        ("--topic", "t"),
        SERVER,
        (*TOPIC, "--include", "t"),
        (*TOPIC, "--offset", "3"),
        (*TOPIC, "--partition", "0", "--offset", "soon"),
        (*TOPIC, "--partition", "0", "--group", "g"),
        (*TOPIC, "--partition", "0", "--offset", "1", "--from-beginning"),
        (*TOPIC, "--partition", "x"),
        (*TOPIC, "--property", "a=b", "--formatter-property", "c=d"),
        (*TOPIC, "--consumer.config", "/x", "--command-config", "/y"),
        (*TOPIC, "--command-config", "/nosuch"),
    ],
    ids=" ".join,
)
def test_a_refused_command_line_of_the_consumer(
    tools: ToolPair, arguments: tuple[str, ...]
) -> None:
    tools.check_same("kafka-console-consumer", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("--nosuch",),
        ("--topic", "t"),
        SERVER,
        (*TOPIC, "--property", "a=b", "--reader-property", "c=d"),
        (*TOPIC, "--producer-property", "a=b", "--command-property", "c=d"),
        (*TOPIC, "--batch-size", "x"),
        (*TOPIC, "--command-config", "/nosuch"),
    ],
    ids=" ".join,
)
def test_a_refused_command_line_of_the_producer(
    tools: ToolPair, arguments: tuple[str, ...]
) -> None:
    tools.check_same("kafka-console-producer", *arguments, input="")


def test_lines_that_are_written_and_read(tools: ToolPair, name: str) -> None:
    """Both tools write the same records and print the same lines."""
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    parsed = ("--property", "parse.key=true", "--property", "key.separator=:", "--sync")
    written = tools.check_same(
        "kafka-console-producer", *SERVER, "--topic", name, *parsed, input="a:1\nb:2\nc:3\n"
    )
    assert written.out[0].startswith("Warning: --property is deprecated")

    def read(*arguments: str) -> list[str]:
        """Return the lines, which both tools print. Lines of Kafka's tool that recommend another
        group protocol do not count."""
        both = tools.both("kafka-console-consumer", *SERVER, "--topic", name, *arguments)
        theirs, ours = both
        assert (ours.out, ours.status) == (theirs.out, theirs.status)
        assert ours.errors == theirs.errors[-1:]
        return [*ours.out, *ours.errors]

    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
    limited = ("--from-beginning", "--max-messages", "3")
    assert read(*limited, *shown) == [
        "Offset:0\ta\t1",
        "Offset:1\tb\t2",
        "Offset:2\tc\t3",
        "Processed a total of 3 messages",
    ]
    at = ("--partition", "0", "--offset", "1", "--max-messages", "1")
    assert read(*at) == ["2", "Processed a total of 1 messages"]
    timed = ("--from-beginning", "--timeout-ms", "5000", "--consumer-property", "client.id=me")
    assert read(*timed)[-1] == "Processed a total of 3 messages"


def test_a_consumer_waits_for_a_topic_that_its_requests_create(tools: ToolPair, name: str) -> None:
    theirs, ours = tools.both(
        "kafka-console-consumer", *SERVER, "--topic", name, "--timeout-ms", "2000"
    )
    assert (ours.out, ours.status) == (theirs.out, theirs.status)
    assert ours.errors[-1] == theirs.errors[-1]
    listed = tools.check_same("kafka-topics", *SERVER, "--list", "--topic", name)
    assert listed.out == [name]
