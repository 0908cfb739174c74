"""kafka-console-producer.sh and kafka-console-consumer.sh of the image."""

from __future__ import annotations

import pytest

from tests.harness.kafka.compared import BROKER, Printed, ToolPair

SERVER = ("--bootstrap-server", BROKER)
TOPIC = (*SERVER, "--topic", "t")
IDEMPOTENT = ("--command-property", "enable.idempotence=true")


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
        (*TOPIC, "--from-beginning", "--command-property", "auto.offset.reset=latest"),
        (*TOPIC, "--from-beginning", "--consumer-property", "auto.offset.reset=by_duration:PT1H"),
        (*TOPIC, "--from-beginning", "--command-property", "auto.offset.reset=never"),
        (*TOPIC, "--group", "a", "--command-property", "group.id=b"),
        (*TOPIC, "--partition", "0", "--command-property", "group.id=b"),
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


@pytest.mark.parametrize(
    "arguments",
    [
        ("--isolation-level", "foo"),
        ("--consumer-property", "auto.offset.reset=never"),
        ("--consumer-property", "fetch.min.bytes=x"),
        ("--command-property", "enable.auto.commit=maybe"),
        ("--command-property", "session.timeout.ms=-5"),
        ("--group", ""),
        ("--command-property", "group.id= "),
        ("--command-property", "group.instance.id="),
        ("--command-property", "heartbeat.interval.ms=50000"),
        ("--command-property", "auto.offset.reset=by_duration:-P1D"),
        ("--command-property", "auto.offset.reset=by_duration:PT"),
        ("--command-property", "group.protocol=foo"),
        ("--command-property", "group.remote.assignor=uniform"),
        ("--command-property", "share.acknowledgement.mode=explicit"),
        (
            *("--command-property", "group.protocol=Consumer"),
            *("--command-property", "session.timeout.ms=9000"),
            *("--command-property", "heartbeat.interval.ms=3000"),
        ),
    ],
    ids=" ".join,
)
def test_a_setting_that_the_consumer_refuses(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    """The line is in the log of Kafka's tool, which goes to standard output here. The tool gets an
    input, so that it runs in a JVM of its own, and the log is seen."""
    both = tools.both(
        "kafka-console-consumer", *TOPIC, "--timeout-ms", "1000", *arguments, input=""
    )
    theirs, ours = ((sorted(tool.out + tool.errors), tool.status) for tool in both)
    assert ours == theirs
    assert ours[1] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--compression-codec", "zip"),
        ("--command-property", "acks=9"),
        ("--request-required-acks", "9"),
        ("--producer-property", "linger.ms=soon"),
        ("--producer-property", "linger.ms"),
        ("--batch-size", "-7"),
        ("--command-property", "enable.idempotence=maybe"),
        ("--command-property", "max.in.flight.requests.per.connection=7"),
        (
            *("--request-required-acks", "1"),
            *("--command-property", "max.in.flight.requests.per.connection=6"),
        ),
        (*IDEMPOTENT, "--request-required-acks", "1"),
        (*IDEMPOTENT, "--command-property", "retries=0", "--request-required-acks", "0"),
        (*IDEMPOTENT, "--message-send-max-retries", "0"),
        ("--command-property", "transactional.id="),
        (
            *("--command-property", "transactional.id=x"),
            *("--command-property", "enable.idempotence=false"),
        ),
        ("--command-property", "transactional.id=x", "--request-required-acks", "1"),
        (
            *("--command-property", "transaction.two.phase.commit.enable=true"),
            *("--command-property", "transaction.timeout.ms=5"),
        ),
        ("--command-property", "delivery.timeout.ms=2499"),
        ("--property", "headers.separator=:"),
        ("--property", "headers.delimiter=,"),
        ("--property", "headers.delimiter=:"),
        ("--property", "null.marker=,", "--property", "key.separator=,"),
        ("--property", "null.marker=:"),
    ],
    ids=" ".join,
)
def test_a_setting_that_the_producer_refuses(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    refused = tools.check_same("kafka-console-producer", *TOPIC, *arguments, input="a\n")
    assert refused.status == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--request-required-acks", "1"),
        ("--command-property", "retries=0"),
        ("--message-send-max-retries", "0"),
        ("--command-property", "delivery.timeout.ms=2500"),
        (
            *("--command-property", "max.in.flight.requests.per.connection=7"),
            *("--command-property", "enable.idempotence=false"),
        ),
    ],
    ids=" ".join,
)
def test_a_setting_that_turns_off_idempotence_is_no_line(
    tools: ToolPair, name: str, arguments: tuple[str, ...]
) -> None:
    """Also accepted: the least time to deliver with the other defaults of Kafka's tool."""
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    at = (*SERVER, "--topic", name)
    written = tools.check_same("kafka-console-producer", *at, *arguments, input="a\n")
    assert (written.status, written.errors) == (0, [])


def test_what_kafkas_producer_ignores(tools: ToolPair, name: str) -> None:
    """A property of another reader, and a codec that is not given by --compression-codec. The
    topic is new, and its creation is no line."""
    ignored = ("--property", "nosuch=1", "--producer-property", "compression.type=zip")
    at = (*SERVER, "--topic", name)
    written = tools.check_same("kafka-console-producer", *at, *ignored, input="a\n")
    assert (written.status, written.errors) == (0, [])


def test_a_refused_record_is_logged_and_the_others_are_written(tools: ToolPair, name: str) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    lines = f"a\n{'x' * 9_000}\nb\n"
    small = (*SERVER, "--topic", name, "--command-property", "max.request.size=2000")
    both = tools.both("kafka-console-producer", *small, input=lines)
    for tool in both:
        (logged,) = exceptions(tool)
        assert logged.startswith("org.apache.kafka.common.errors.RecordTooLargeException: ")
        assert tool.status == 0
    limited = ("--topic", name, "--from-beginning", "--max-messages", "2")
    theirs, ours = tools.both("kafka-console-consumer", *SERVER, *limited)
    assert ours.out == theirs.out == ["a", "b"]


def test_records_for_an_invalid_name_are_logged(tools: ToolPair) -> None:
    at = (*SERVER, "--topic", "bad name!")
    both = tools.both("kafka-console-producer", *at, input="a\nb\n")
    for tool in both:
        assert tool.status == 0
        logged = exceptions(tool)
        assert len(logged) == 2
        assert all("errors.InvalidTopicException: " in line for line in logged)


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
    first = ("--partition", "0", "--offset", "EARLIEST", "--max-messages", "1")
    literal = ("--property", "print.key=true", "--property", r"key.separator=\t\\n")
    assert read(*first, *literal)[1:] == [r"a\t\\n1", "Processed a total of 1 messages"]
    for none in ("0", "-2"):
        assert read("--max-messages", none) == ["Processed a total of 0 messages"]
    at_once = ("--partition", "0", "--timeout-ms", "0")
    assert read(*at_once) == ["Processed a total of 0 messages"]
    timed = ("--from-beginning", "--timeout-ms", "5000", "--consumer-property", "client.id=me")
    assert read(*timed)[-1] == "Processed a total of 3 messages"


def test_lines_with_missing_parts(tools: ToolPair, name: str) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    properties = (
        *("parse.key= true", "parse.headers=TRUE", "ignore.error=true", "null.marker=NULL"),
        *("key.separator=|", "headers.delimiter=;"),
    )
    words = [word for text in properties for word in ("--reader-property", text)]
    lines = "h:1,i:NULL;k|v\nNULL;k|v\nh;k|v\nk|NULL\nh:1;v\nNULL|v\nv\nNULL\n"
    at = (*SERVER, "--topic", name)
    tools.check_same("kafka-console-producer", *at, *words, input=lines)
    shown = ("--property", "print.key=true", "--property", "print.headers=true")
    read = (*at, *shown, "--from-beginning", "--max-messages", "8")
    theirs, ours = tools.both("kafka-console-consumer", *read)
    assert ours.out == theirs.out
    assert len(ours.out) == 9


def test_reading_begins_at_the_first_record_within_a_duration(tools: ToolPair, name: str) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    named = (*SERVER, "--topic", name)
    tools.check_same("kafka-console-producer", *named, input="first\nsecond\n")
    reset = ("--command-property", "auto.offset.reset=by_duration:PT1H")
    read = tools.both("kafka-console-consumer", *named, *reset, "--max-messages", "2")
    for printed in read:
        assert printed.out == ["first", "second"]
        assert printed.errors[-1] == "Processed a total of 2 messages"


def test_a_consumer_waits_for_a_topic_that_its_requests_create(tools: ToolPair, name: str) -> None:
    theirs, ours = tools.both(
        "kafka-console-consumer", *SERVER, "--topic", name, "--timeout-ms", "2000"
    )
    assert (ours.out, ours.status) == (theirs.out, theirs.status)
    assert ours.errors[-1] == theirs.errors[-1]
    listed = tools.check_same("kafka-topics", *SERVER, "--list", "--topic", name)
    assert listed.out == [name]


def exceptions(tool: Printed) -> list[str]:
    """Return the exceptions in the log of a tool."""
    return [line for line in tool.out + tool.errors if line.startswith("org.apache.")]
