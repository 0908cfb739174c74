"""kafka-consumer-groups.sh of the image prints the lines of Kafka's tool of this name."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness.committing import commit_offsets
from tests.harness.kafka.compared import BROKER, Printed, ToolPair, run_ours
from tests.harness.waiting import wait_until

SERVER = ("--bootstrap-server", BROKER)
RESET = (*SERVER, "--reset-offsets", "--group", "g")
# The id of a member, which the broker draws.
MEMBER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("--version",),
        ("--list",),
        (*SERVER, "--nosuch"),
        (*SERVER,),
        (*SERVER, "--list", "--describe", "--group", "g"),
        (*SERVER, "--describe", "--group", "g", "--members", "--state"),
        (*SERVER, "--describe", "--group", "nosuch"),
        (*SERVER, "--delete", "--group", "nosuch"),
        (*RESET, "--topic", "t", "--to-earliest", "--to-latest"),
        (*RESET, "--topic", "t", "--to-earliest", "--execute", "--dry-run"),
        (*RESET, "--topic", "t", "--all-groups", "--to-earliest"),
        (*SERVER, "--delete", "--group", "g", "--topic", "t"),
        (*SERVER, "--delete", "--group", "g", "--all-groups"),
        (*SERVER, "--describe", "--group", "g", "--all-groups"),
        (*SERVER, "--describe", "--group", "g", "--topic", "t"),
        (*SERVER, "--delete-offsets", "--group", "g", "--all-groups", "--topic", "t"),
        (*SERVER, "--delete-offsets", "--group", "g", "--group", "h", "--topic", "t"),
        (*SERVER, "--list", "--group", "g"),
        (*SERVER, "--list", "--topic", "t"),
        (*SERVER, "--list", "--members"),
        (*SERVER, "--list", "--offsets"),
        (*SERVER, "--list", "--verbose"),
        (*SERVER, "--describe", "--group", "g", "--type"),
        (*SERVER, "--delete", "--group", "g", "--state"),
        (*SERVER, "--describe", "--group", "g", "--state", "stable"),
        ("--members", "--help"),
    ],
    ids=" ".join,
)
def test_a_refused_command_line(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    tools.check_same("kafka-consumer-groups", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [("--all-groups",), ("--state", "stable,dead,"), ("--state", ",")],
    ids=" ".join,
)
def test_a_list_that_is_not_refused(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    """The two brokers have the groups of other tests, which are not the same."""
    theirs, ours = tools.both("kafka-consumer-groups", *SERVER, "--list", *arguments)
    assert (theirs.status, theirs.errors) == (ours.status, ours.errors) == (0, [])


def test_a_reset_without_topics(tools: ToolPair) -> None:
    """With an input, Kafka's tool has a JVM of its own. It catches the exit of the driver's."""
    refused = tools.check_same("kafka-consumer-groups", *RESET, "--to-earliest", input="")
    assert refused.status == 1


def words_of(printed: Printed) -> list[list[str]]:
    """Return the words of each error in alphabetical order. Java lists the possible options in any
    order."""
    return [sorted(line.replace(",", " ").split()) for line in printed.errors]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--state", "stabel"),
        ("--state", "stable,,dead"),
        ("--type", "clasic"),
        ("--type", "Classic,share"),
        ("--state", "stabel", "--type", "clasic"),
    ],
    ids=" ".join,
)
def test_a_list_of_an_unknown_state_or_type(tools: ToolPair, wrong: tuple[str, ...]) -> None:
    theirs, ours = tools.both("kafka-consumer-groups", *SERVER, "--list", *wrong)
    assert words_of(ours) == words_of(theirs)
    assert ours.status == theirs.status == 1


@pytest.mark.parametrize("action", ["--describe", "--delete"])
def test_an_action_without_a_group(tools: ToolPair, action: str) -> None:
    theirs, ours = tools.both("kafka-consumer-groups", *SERVER, action)
    assert words_of(ours) == words_of(theirs)


@pytest.fixture
def group(tools: ToolPair, name: str) -> Iterator[str]:
    """A group that owns a topic of three partitions and has read it, on both brokers. Yield the
    name of both. The brokers draw different member ids, so the tests hide them."""
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name, "--partitions", "3")
    consumers = []
    for address in (tools.kafka, tools.oncelog):
        producer = Producer({"bootstrap.servers": address})
        for at in range(10):
            producer.produce(name, b"v", partition=at % 2)
        assert producer.flush(30) == 0
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": name,
                "client.id": "a-client",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumers.append(consumer)
        consumer.subscribe([name])
        wait_until(partial(_polled, consumer), "the member owns the partitions")
        commit_offsets(consumer, [TopicPartition(name, 0, 5), TopicPartition(name, 1, 2)])
    yield name
    for consumer in consumers:
        consumer.close()


def _polled(consumer: Consumer) -> bool:
    consumer.poll(0.1)
    return len(consumer.assignment()) == 3


@pytest.mark.parametrize(
    "what",
    [
        (),
        ("--offsets",),
        ("--verbose",),
        ("--members",),
        ("--members", "--verbose"),
    ],
    ids=" ".join,
)
def test_a_group_with_a_member(tools: ToolPair, group: str, what: tuple[str, ...]) -> None:
    arguments = ("--describe", "--group", group, *what)
    theirs, ours = tools.both("kafka-consumer-groups", *SERVER, *arguments)
    hidden = [MEMBER.sub("ID", line) for line in ours.out]
    assert hidden == [MEMBER.sub("ID", line) for line in theirs.out]
    assert len(ours.out) == (3 if "--members" in what else 5)
    assert (ours.errors, ours.status) == (theirs.errors, theirs.status) == ([], 0)


@pytest.fixture
def pair(tools: ToolPair, name: str) -> Iterator[list[Consumer]]:
    """Two members of a group on each broker, which share a topic of a single partition. The names
    of the group and the topic are `name`."""
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    consumers = []
    for address in (tools.kafka, tools.oncelog):
        settings = {"bootstrap.servers": address, "group.id": name, "client.id": "a-client"}
        for _ in range(2):
            consumers.append(Consumer(settings | {"enable.auto.commit": False}))
            consumers[-1].subscribe([name])
    yield consumers
    for consumer in consumers:
        consumer.close()


def test_members_without_partitions_have_no_line(
    tools: ToolPair, name: str, pair: list[Consumer]
) -> None:
    def members(address: str) -> int:
        for consumer in pair:
            consumer.poll(0.1)
        described = ("--bootstrap-server", address, "--describe", "--group", name)
        state = run_ours("kafka-consumer-groups", *described, "--state").lines
        return int(state[-1].split()[-1]) if "Stable" in "".join(state) else 0

    for address in (tools.kafka, tools.oncelog):
        wait_until(partial(_is_two, members, address), "both members are in the group")
    theirs, ours = tools.both("kafka-consumer-groups", *SERVER, "--describe", "--group", name)
    assert [MEMBER.sub("ID", line) for line in ours.out] == [
        MEMBER.sub("ID", line) for line in theirs.out
    ]
    assert len(ours.out) == 3
    for consumer in pair:
        consumer.close()
    printed = tools.check_same("kafka-consumer-groups", *SERVER, "--describe", "--group", name)
    assert printed.out == []  # no heading: there is neither a member nor an offset


def _is_two(members: Callable[[str], int], address: str) -> bool:
    return members(address) == 2


def test_the_state_of_a_group_with_a_member(tools: ToolPair, group: str) -> None:
    """Each broker is its own coordinator, so the addresses differ."""
    arguments = ("--describe", "--group", group, "--state")
    theirs, ours = tools.both("kafka-consumer-groups", *SERVER, *arguments)
    assert [line.split()[0:1] + line.split()[-3:] for line in ours.out] == [
        line.split()[0:1] + line.split()[-3:] for line in theirs.out
    ]
    asked = ("--bootstrap-server", tools.kafka, *arguments)
    same = tools.kafka_tool("kafka-consumer-groups", *asked)
    assert run_ours("kafka-consumer-groups", *asked) == same
    assert same.lines[1].endswith("range                Stable               1")
    tools.check_same("kafka-consumer-groups", *SERVER, "--delete", "--group", group)


def test_a_group_without_members(tools: ToolPair, name: str) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name, "--partitions", "3")
    for address in (tools.kafka, tools.oncelog):
        consumer = Consumer({"bootstrap.servers": address, "group.id": name})
        offsets = [TopicPartition(name, 0, 0), TopicPartition(name, 2, 0)]
        commit_offsets(consumer, offsets)
        consumer.close()

    def same(*arguments: str) -> list[str]:
        printed = tools.check_same("kafka-consumer-groups", *SERVER, *arguments)
        return [*printed.out, *printed.errors]

    assert len(same("--describe", "--group", name)) == 6
    assert len(same("--describe", "--group", name, "--members")) == 4
    for address in (tools.kafka, tools.oncelog):
        for what in ((), ("--state",), ("--state", "empty,stable"), ("--type", "--state")):
            arguments = ("--bootstrap-server", address, "--list", *what)
            theirs = tools.kafka_tool("kafka-consumer-groups", *arguments)
            ours = run_ours("kafka-consumer-groups", *arguments)
            # Groups of other tests may change meanwhile, and the widths of the columns with them.
            assert [line.split() for line in ours.lines if name in line] == [
                line.split() for line in theirs.lines if name in line
            ]
            assert not what or ours.lines[0].split() == theirs.lines[0].split()
    assert "was successful" in same("--delete", "--group", name)[0]
    assert "could not be deleted" in same("--delete", "--group", name)[2]


@pytest.mark.parametrize(
    "value",
    [
        ("--to-offset", "x"),
        ("--to-offset", "99999999999999999999"),
        ("--shift-by", "1.5"),
        ("--to-datetime", "bad"),
        ("--to-datetime", "2026-13-01T00:00:00.000"),
        ("--by-duration", "bad"),
        ("--to-datetime", "2026-11-21T06:00"),
        ("--to-datetime", "2026-11-21T06:00:00"),
        ("--to-datetime", "2026-11-21T06:00:00.5000"),
        ("--to-datetime", "2026-11-21T06:00:00.000+1"),
    ],
    ids=" ".join,
)
def test_a_value_of_a_reset_that_cannot_be_read(
    tools: ToolPair, name: str, value: tuple[str, ...]
) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    reset = ("--group", name, "--topic", name, "--reset-offsets", "--dry-run")
    printed = tools.check_same("kafka-consumer-groups", *SERVER, *reset, *value)
    assert printed.status == 0
    assert "Executing consumer group command failed" in printed.out[-1]


def test_a_plan_for_two_groups(tools: ToolPair, name: str, tmp_path: Path) -> None:
    """Each tool exports the offsets of two groups over one topic, and applies the file of the
    other. A file without groups changes nothing for several groups."""
    groups = [f"{name}-{at}" for at in (0, 1)]
    _commit(tools, name, dict(zip(groups, (3, 7), strict=True)))
    both = ("--reset-offsets", *(word for group in groups for word in ("--group", group)))
    arguments = (*both, "--all-topics", "--to-current", "--export", "--dry-run")
    plans = [tool.out for tool in tools.both("kafka-consumer-groups", *SERVER, *arguments)]
    theirs, ours = (list(csv.reader(filter(None, plan))) for plan in plans)
    assert sorted(theirs) == ours == [[groups[0], name, "0", "3"], [groups[1], name, "0", "7"]]

    plan = tmp_path / "plan.csv"
    without_groups = [f"{name},0,5"]
    cases = (plans[0], ["3", "7"]), (plans[1], ["3", "7"]), (without_groups, ["0", "0"])
    for lines, expected in cases:
        to_start = (*both, "--all-topics", "--to-earliest", "--execute")
        tools.both("kafka-consumer-groups", *SERVER, *to_start)
        plan.write_text("\n".join(lines))
        from_file = (*both, "--from-file", str(plan), "--execute")
        tools.both("kafka-consumer-groups", *SERVER, *from_file)
        for group, offset in zip(groups, expected, strict=True):
            described = ("--describe", "--group", group)
            shown = tools.check_same("kafka-consumer-groups", *SERVER, *described)
            assert shown.out[-1].split()[3] == offset


def test_a_reset_of_an_active_group_and_another(tools: ToolPair, group: str) -> None:
    other = f"{group}-other"
    _commit(tools, group, {other: 2})
    both = ("--reset-offsets", "--group", group, "--group", other)
    arguments = (*both, "--topic", group, "--to-earliest", "--execute")
    theirs, ours = tools.both("kafka-consumer-groups", *SERVER, *arguments)
    refused = [line for line in theirs.out if line.startswith("Error: ")]
    assert [line for line in ours.out if line.startswith("Error: ")] == refused
    assert group in refused[0]
    assert ours.status == theirs.status == 0
    shown = tools.check_same("kafka-consumer-groups", *SERVER, "--describe", "--group", other)
    assert shown.out[-1].split()[3] == "0"


def _commit(tools: ToolPair, topic: str, offsets: dict[str, int]) -> None:
    """Write ten records into the first partition of a topic, which is created if it is missing, and
    commit an offset of it for each group, on both brokers."""
    create = ("--create", "--if-not-exists", "--topic", topic)
    tools.both("kafka-topics", *SERVER, *create)
    for address in (tools.kafka, tools.oncelog):
        producer = Producer({"bootstrap.servers": address})
        for _ in range(10):
            producer.produce(topic, b"v", partition=0)
        assert producer.flush(30) == 0
        for group, offset in offsets.items():
            consumer = Consumer({"bootstrap.servers": address, "group.id": group})
            commit_offsets(consumer, [TopicPartition(topic, 0, offset)])
            consumer.close()


@pytest.mark.parametrize("regex", ["a.*", "a(", "*a", "a**", "[b-a]", r"\8"])
def test_an_expression_is_validated(tools: ToolPair, regex: str) -> None:
    printed = tools.check_same("kafka-consumer-groups", *SERVER, "--validate-regex", regex)
    assert printed.out[0].startswith("The regular expression")


def committed(tools: ToolPair, group: str, topic: str) -> list[list[int]]:
    """Return the committed offsets of both brokers in the partitions of a topic."""
    offsets = []
    for address in (tools.kafka, tools.oncelog):
        consumer = Consumer({"bootstrap.servers": address, "group.id": group})
        places = consumer.committed([TopicPartition(topic, at) for at in range(2)], 30)
        offsets.append([place.offset for place in places])
        consumer.close()
    return offsets


@pytest.fixture
def idle(tools: ToolPair, name: str) -> str:
    """A group without members, with offsets in a topic of two partitions, on both brokers. Return
    the name of both."""
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name, "--partitions", "2")
    for address in (tools.kafka, tools.oncelog):
        producer = Producer({"bootstrap.servers": address})
        for at in range(10):
            producer.produce(name, b"v", partition=at % 2)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": address, "group.id": name})
        offsets = [TopicPartition(name, at, 3) for at in range(2)]
        commit_offsets(consumer, offsets)
        consumer.close()
    return name


@pytest.mark.parametrize(
    "arguments",
    [
        ("--delete", "--group", "NAME", "--topic", "NAME"),
        ("--delete", "--group", "NAME", "--all-groups"),
        ("--delete-offsets", "--all-groups", "--topic", "NAME"),
        ("--delete-offsets", "--group", "NAME", "--group", "other", "--topic", "NAME"),
        ("--delete-offsets", "--group", "NAME", "--all-groups", "--topic", "NAME"),
    ],
    ids=" ".join,
)
def test_a_refused_deletion_keeps_all_offsets(
    tools: ToolPair, idle: str, arguments: tuple[str, ...]
) -> None:
    named = (idle if word == "NAME" else word for word in arguments)
    theirs, ours = tools.both("kafka-consumer-groups", *SERVER, *named)
    assert (ours.status, ours.out) == (theirs.status, theirs.out)
    assert words_of(ours) == words_of(theirs)
    assert committed(tools, idle, idle) == [[3, 3], [3, 3]]


@pytest.mark.parametrize(
    ("action", "offsets"),
    [
        (("--reset-offsets", "--execute", "--to-offset", "1"), [1, 1]),
        (("--reset-offsets", "--execute", "--to-offset", "-5"), [0, 0]),
        (("--reset-offsets", "--execute", "--to-offset=-5"), [0, 0]),
        (("--reset-offsets", "--execute", "--shift-by", "-1"), [2, 2]),
        (("--reset-offsets", "--execute", "--to-datetime", "2096-11-21T06:00:00.5"), [5, 5]),
        (("--reset-offsets", "--execute", "--to-datetime", "2006-1-2T6:0:0.000+01:00"), [0, 0]),
        (("--delete-offsets",), [-1001, -1001]),
    ],
    ids=str,
)
def test_an_action_takes_every_option_of_kafkas_tool(
    tools: ToolPair, idle: str, tmp_path: Path, action: tuple[str, ...], offsets: list[int]
) -> None:
    """Our own command runs these actions. It has no --timeout and refuses unknown settings."""
    file = tmp_path / "client.properties"
    file.write_text("client.dns.lookup=use_all_dns_ips\nreceive.buffer.bytes = 65536\n")
    more = ("--timeout", "10000", "--command-config", str(file), "--group", idle, "--topic", idle)
    theirs, ours = tools.both("kafka-consumer-groups", *SERVER, *action, *more)
    assert ours.status == theirs.status == 0, (theirs, ours)
    assert committed(tools, idle, idle) == [offsets, offsets]
