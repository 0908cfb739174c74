"""`produce TOPIC -k -H -p` and `consume TOPIC -f -e -o -p -n` against a running broker."""

from __future__ import annotations

import time

import pytest

from tests.client.cli.conftest import CommandLine
from tests.client.cli.test_nouns import open_transaction, write

VALUES = [f"v{number}" for number in range(10)]


@pytest.fixture
def ten(command_line: CommandLine, name: str) -> str:
    """Return the name of a topic of one partition with ten records."""
    command_line.create(name)
    write(command_line, name, *VALUES)
    return name


def read(command_line: CommandLine, topic: str, *flags: str) -> list[str]:
    """Run a call that ends by itself, and return its lines."""
    return command_line.text("consume", topic, *flags).splitlines()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("-e",), VALUES),
        (("-o", "start", "-e"), VALUES),
        (("-o", "-3", "-e"), VALUES[-3:]),
        (("-o", "+4", "-e"), VALUES[4:]),
        (("-o", "2:5"), VALUES[2:5]),
        (("-o", ":3"), VALUES[:3]),
        (("-o", "8:"), VALUES[8:]),
        (("-o", "start:-7"), VALUES[:3]),
        (("-o", "@-1h:end"), VALUES),
        (("-o", "@-1h", "-n", "2"), VALUES[:2]),
        (("-o", "5", "-n", "1"), VALUES[5:6]),
        (("-o", "99", "-e"), []),
        (("-o", "end", "-e"), []),
        (("-p", "0", "-e"), VALUES),
    ],
    ids=" ".join,
)
def test_a_range_is_read_and_no_more(
    command_line: CommandLine, ten: str, flags: tuple[str, ...], expected: list[str]
) -> None:
    assert read(command_line, ten, *flags) == expected


def test_the_number_of_uncommitted_records_is_reported(
    command_line: CommandLine, name: str
) -> None:
    command_line.create(name)
    write(command_line, name, "plain")
    command_line.text("produce", name, "--transactional-id", name, lines="a\nb\n")
    # Apache Kafka responds to EndTxn before it has written the marker.
    command_line.values(name, "--isolation-level", "read_committed", count=3)
    committed = command_line.call("consume", name, "-e")
    assert committed.stderr == "3 records\n"
    keyed = ("--transactional-id", name, "--property", "parse.key=true")
    assert command_line.call("produce", name, *keyed, lines="k\tv\nno key\n").exit_code == 1
    with open_transaction(command_line.address, name, f"{name}-open"):
        everything = command_line.call("consume", name, "-e")
        assert everything.stderr == (
            "5 records, 1 of them aborted and 1 not committed so far: see --isolation-level\n"
        )
        one_less = command_line.call("consume", name, "-o", "0:-2")
        assert "1 of them aborted: see --isolation-level" in one_less.stderr
        safe = command_line.call("consume", name, "-e", "--isolation-level", "read_committed")
        assert safe.stderr == "3 records\n"


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("group", [False, True])
def test_committed_records_before_the_end_of_their_transaction_are_not_called_uncommitted(
    command_line: CommandLine, name: str, isolation: str, group: bool
) -> None:
    command_line.create(name)
    command_line.text("produce", name, "--transactional-id", name, lines="a\nb\nc\n")
    command_line.values(name, "--isolation-level", "read_committed", count=3)
    place = ("--group", name, "--from-beginning") if group else ("-o", "start")
    some = command_line.call("consume", name, *place, "-n", "2", "--isolation-level", isolation)
    assert (some.stdout, some.stderr) == ("a\nb\n", "2 records\n")


def test_partitions_are_chosen(command_line: CommandLine, name: str) -> None:
    command_line.create(name, partitions=4)
    for partition in range(4):
        command_line.text("produce", name, "-p", str(partition), lines=f"in {partition}\n")
    assert sorted(read(command_line, name, "-p", "0,2-3", "-e")) == ["in 0", "in 2", "in 3"]
    assert "no partition 7" in command_line.refused("consume", name, "-p", "7", "-e")


def test_the_end_of_committed_records_is_before_an_open_transaction(
    command_line: CommandLine, ten: str
) -> None:
    committed = ("--isolation-level", "read_committed")
    with open_transaction(command_line.address, ten, ten):
        assert read(command_line, ten, "-e", *committed) == VALUES
        assert read(command_line, ten, "-e") == [*VALUES, "undecided"]
    command_line.settled(lambda rows: rows[0]["stable"] == rows[0]["end"], "topic", "offsets", ten)
    assert read(command_line, ten, "-e", *committed) == VALUES


def test_consume_to_the_end_does_not_wait_if_only_markers_are_left(
    command_line: CommandLine, name: str
) -> None:
    command_line.create(name)
    command_line.text("produce", name, "--transactional-id", name, lines="a\nb\n")
    # Kafka responds to EndTxn before it has written the markers.
    command_line.settled(lambda rows: rows[0]["stable"] == rows[0]["end"], "topic", "offsets", name)
    began = time.monotonic()
    assert read(command_line, name, "-e", "--isolation-level", "read_committed") == ["a", "b"]
    # The command ends by itself, before any timeout of the test.
    assert time.monotonic() - began < 60


def test_a_record_is_printed_as_the_template_says(command_line: CommandLine, name: str) -> None:
    command_line.create(name)
    flags = ("-k", "7", "-H", "source=test", "-H", "n=1", "-p", "0", "-v")
    assert command_line.text("produce", name, *flags, lines="v\n") == "partition 0 offset 0\n"
    template = r"%t/%p/%o %k=%v [%h] %K %V\n"
    assert read(command_line, name, "-e", "-f", template) == [
        f"{name}/0/0 7=v [source=test,n=1] 1 1"
    ]


def test_a_tombstone_has_a_key_and_no_value(command_line: CommandLine, name: str) -> None:
    command_line.create(name)
    command_line.text("produce", name, "-k", "7", "--tombstone", lines="not read\n")
    assert read(command_line, name, "-e", "-f", r"%k %V\n") == ["7 -1"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume",),
        ("consume", "t", "--topic", "t"),
        ("consume", "t", "-o", "nowhere"),
        ("consume", "t", "-o", "start", "--from-beginning"),
        ("consume", "t", "-e", "--group", "g"),
        ("consume", "t", "-p", "0", "--partition", "0"),
        ("consume", "t", "-p", "x"),
        ("consume", "t", "-f", "%q"),
        ("consume", "t", "-f", "%v", "--json"),
        ("produce",),
        ("produce", "t", "--topic", "t"),
        ("produce", "t", "--tombstone"),
        ("produce", "t", "-H", "no value"),
        ("produce", "t", "-k", "k", "--property", "parse.key=true"),
    ],
    ids=" ".join,
)
def test_a_call_that_contradicts_itself_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    assert CommandLine("127.0.0.1:1").call(*arguments).exit_code == 2
