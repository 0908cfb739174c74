"""`oncelog groups` against a running broker."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.testing.wire import Wire
from tests.client.cli.conftest import CommandLine
from tests.harness.waiting import wait_until
from tests.harness.writing import Identity, batch, end_transaction, new_identity, produce


@pytest.fixture
def group(command_line: CommandLine, name: str) -> str:
    """A group that has read two of the three records in a topic. The topic has the group's name."""
    command_line.create(name)
    command_line.text("produce", "--topic", name, lines="a\nb\nc\n")
    assert command_line.values(name, "--group", name, count=2) == ["a", "b"]
    return name


def offset(command_line: CommandLine, group: str) -> int:
    (row,) = command_line.json("groups", "--describe", "--group", group)
    current: int = row["current_offset"]
    return current


def reset(command_line: CommandLine, group: str, *arguments: str) -> Any:
    flags = ("--reset-offsets", "--group", group, "--topic", group, *arguments)
    return command_line.json("groups", *flags)


def test_a_group_is_listed_with_its_state(command_line: CommandLine, group: str) -> None:
    rows = {row["group"]: row for row in command_line.json("groups", "--list")}
    assert rows[group]["state"] == "Empty"


def test_offsets_and_lag_are_described(command_line: CommandLine, group: str) -> None:
    (row,) = command_line.json("groups", "--describe", "--group", group)
    assert (row["topic"], row["partition"]) == (group, 0)
    assert (row["current_offset"], row["log_end_offset"], row["lag"]) == (2, 3, 1)


def test_lag_counts_no_markers_and_no_records_of_open_transactions(
    command_line: CommandLine, name: str
) -> None:
    """A read_committed reader gets no marker, and gets a record of an open transaction only after
    the commit. Apache Kafka does not count records, so its lag includes the marker."""
    command_line.create(name)
    command_line.text("produce", "--topic", name, lines="a\n")
    assert command_line.values(name, "--group", name, count=1) == ["a"]
    with Wire(command_line.address) as wire:
        producer = new_identity(wire, name)
        assert produce(wire, name, batch(producer, 0), producer=producer).error_code == 0
        ended = end_transaction(wire, producer, commit=True)
        assert ended.error_code == 0
        producer = Identity(ended.producer_id, ended.producer_epoch, name)
        sent = produce_when_ended(wire, name, producer)
        assert sent == 3, "the offset after the marker"
        described = "groups", "--describe", "--group", name
        (row,) = command_line.json(*described)
        is_counted = row["lag"] == 1
        assert (row["lag"], row["held_back"]) == ((1, 1) if is_counted else (2, 1))
        end_transaction(wire, producer, commit=False)


def produce_when_ended(wire: Wire, topic: str, producer: Identity) -> int:
    """Produce a batch of the next transaction after the previous one has its marker. Return the
    batch's offset."""
    offsets: list[int] = []

    def written() -> bool:
        response = produce(wire, topic, batch(producer, 0), producer=producer)
        if response.error_code == 0:
            offsets.append(response.base_offset)
        return bool(offsets)

    wait_until(written, "a record of the next transaction")
    return offsets[0]


def test_state_and_members_are_described(command_line: CommandLine, group: str) -> None:
    (row,) = command_line.json("groups", "--describe", "--group", group, "--state")
    assert (row["group"], row["state"], row["members"]) == (group, "Empty", 0)
    assert command_line.json("groups", "--describe", "--group", group, "--members") == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--to-earliest",), 0),
        (("--to-offset", "0"), 0),
        (("--shift-by", "0"), 2),
        (("--by-duration", "P99999999999999D"), 0),
        (("--to-datetime", "0001-01-01T00:00:00"), 0),
        (("--to-latest",), 3),
        (("--to-offset", "1"), 1),
        (("--to-offset", "99"), 3),
        (("--shift-by", "-1"), 1),
        (("--to-current",), 2),
        (("--to-datetime", "2000-01-01T00:00:00.000"), 0),
        (("--by-duration", "PT0S"), 3),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_offsets_are_reset_to_the_offset_that_kafkas_tool_chooses(
    command_line: CommandLine, group: str, arguments: tuple[str, ...], expected: int
) -> None:
    (row,) = reset(command_line, group, *arguments, "--execute")
    assert row["new_offset"] == expected
    assert offset(command_line, group) == expected


def test_a_reset_shows_old_and_new_offsets_and_whether_it_committed_them(
    command_line: CommandLine, group: str
) -> None:
    (row,) = reset(command_line, group, "--to-earliest")
    assert (row["old_offset"], row["new_offset"], row["distance"]) == (2, 0, -2)
    flags = ("--reset-offsets", "--group", group, "--topic", group, "--to-earliest")
    dry = command_line.call("groups", *flags)
    assert "nothing was changed; --execute commits this" in dry.stderr
    assert offset(command_line, group) == 2
    done = command_line.call("groups", *flags, "--execute")
    assert "1 offset: committed" in done.stderr
    assert offset(command_line, group) == 0


@pytest.mark.parametrize("narrow_first", [False, True])
def test_a_topic_given_with_and_without_partitions_means_all_partitions(
    command_line: CommandLine, name: str, narrow_first: bool
) -> None:
    command_line.create(name, partitions=2)
    topics = [("--topic", f"{name}:0"), ("--topic", name)]
    chosen = [part for topic in (topics if narrow_first else topics[::-1]) for part in topic]
    rows = command_line.json("groups", "--reset-offsets", "--group", name, "--to-earliest", *chosen)
    assert [row["partition"] for row in rows] == [0, 1]


def test_a_partition_that_does_not_exist_is_named(command_line: CommandLine, group: str) -> None:
    flags = ("--reset-offsets", "--group", group, "--to-earliest", "--topic", f"{group}:0,7")
    assert f"there is no partition {group}-7" in command_line.refused("groups", *flags)


def test_offsets_of_an_unknown_group_or_topic_cannot_be_deleted(
    command_line: CommandLine, group: str, name: str
) -> None:
    flags = ("groups", "--delete-offsets", "--topic", name, "--group")
    assert "there is no group nosuch" in command_line.refused(*flags, "nosuch")
    other = ("groups", "--delete-offsets", "--topic", "nosuch", "--group", group)
    assert f"group {group} has no offsets of nosuch" in command_line.refused(*other)


def test_without_execute_a_reset_is_only_shown(command_line: CommandLine, group: str) -> None:
    assert reset(command_line, group, "--to-earliest")[0]["new_offset"] == 0
    assert offset(command_line, group) == 2


def test_a_reset_requires_a_choice_of_topics(command_line: CommandLine, group: str) -> None:
    flags = ("--reset-offsets", "--group", group, "--to-earliest")
    assert command_line.call("groups", *flags).exit_code == 2
    (row,) = command_line.json("groups", *flags, "--all-topics")
    assert row["topic"] == group


def test_offsets_and_groups_are_deleted(command_line: CommandLine, group: str) -> None:
    command_line.text("groups", "--delete-offsets", "--group", group, "--topic", group)
    command_line.text("groups", "--delete", "--group", group)
    assert group not in {row["group"] for row in command_line.json("groups", "--list")}


def test_an_unknown_group_cannot_be_deleted(command_line: CommandLine, name: str) -> None:
    assert "GROUP_ID_NOT_FOUND" in command_line.refused("groups", "--delete", "--group", name)
