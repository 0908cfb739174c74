"""`oncelog groups --reset-offsets`, `--delete-offsets` and `--delete` with several groups. Some of
them cannot be changed. Files of `--export` have the offsets of several groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.client.cli.conftest import CommandLine

RECORDS = 9
# In this version a member joins without an id of its own.
JOIN_VERSION = 3


@contextmanager
def member(here: CommandLine, group: str, protocol_type: str) -> Iterator[None]:
    """A member of the group, which is active meanwhile."""
    request = JoinGroupRequest(
        group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol("range", b"")],
    )
    with Wire(here.address) as wire:
        assert wire.call(request, version=JOIN_VERSION).error_code == 0
        yield


@pytest.fixture
def groups(here: CommandLine, name: str) -> list[str]:
    """Three groups at the offsets 3, 4 and 5 of one topic. The topic has their common name."""
    here.create(name)
    here.text("produce", "--topic", name, lines="x\n" * RECORDS)
    groups = [f"{name}-{letter}" for letter in "abc"]
    for offset, group in enumerate(groups, 3):
        to = ("--to-offset", str(offset), "--execute")
        here.text("groups", "--reset-offsets", "--group", group, "--topic", name, *to)
    return groups


def named(groups: list[str]) -> list[str]:
    return [word for group in groups for word in ("--group", group)]


def offsets(here: CommandLine, groups: list[str]) -> list[int | None]:
    rows = here.json("groups", "--describe", *named(groups))
    found = {row["group"]: row["current_offset"] for row in rows}
    return [found.get(group) for group in groups]


def test_an_active_group_does_not_stop_the_reset_of_the_others(
    here: CommandLine, groups: list[str]
) -> None:
    """The reset groups are shown, so that the reset is not repeated for them."""
    flags = ("--all-topics", "--shift-by", "1", "--execute")
    with member(here, groups[1], "consumer"):
        done = here.call("groups", "--reset-offsets", *named(groups), *flags, "--output", "json")
    assert done.exit_code == 1
    assert f"group {groups[1]} is " in done.stderr
    assert "stop its members before its offsets are reset" in done.stderr
    assert [groups[0] in done.stdout, groups[1] in done.stdout, groups[2] in done.stdout] == [
        *(True, False, True)
    ]
    assert offsets(here, groups) == [4, 4, 6]


def test_an_error_of_the_last_group_is_found_before_the_first_commit(
    here: CommandLine, groups: list[str]
) -> None:
    flags = ("--topic", groups[0][:-2], "--shift-by", "1", "--execute")
    new = [*groups, f"{groups[0]}-new"]
    said = here.refused("groups", "--reset-offsets", *named(new), *flags)
    assert "no offset to shift" in said
    assert offsets(here, groups) == [3, 4, 5]


def test_offsets_are_deleted_only_if_each_group_has_some(
    here: CommandLine, groups: list[str], name: str
) -> None:
    other = f"{name}-other"
    here.create(other)
    to = ("--topic", other, "--to-earliest", "--execute")
    here.text("groups", "--reset-offsets", "--group", other, *to)
    flags = ("--delete-offsets", *named([*groups, other]), "--topic", name)
    assert f"group {other} has no offsets of {name}" in here.refused("groups", *flags)
    assert offsets(here, groups) == [3, 4, 5]


def test_the_exported_offsets_of_several_groups_are_those_of_each_group(
    here: CommandLine, groups: list[str], name: str, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.csv"
    reset = ("groups", "--reset-offsets", *named(groups))
    plan.write_text(here.text(*reset, "--all-topics", "--to-current", "--export"))
    assert plan.read_text().splitlines() == [
        f"{group},{name},0,{offset}" for offset, group in enumerate(groups, 3)
    ]
    here.text(*reset, "--all-topics", "--to-earliest", "--execute")
    assert offsets(here, groups) == [0, 0, 0]
    here.text(*reset, "--from-file", str(plan), "--execute")
    assert offsets(here, groups) == [3, 4, 5]


def test_the_exported_offsets_of_a_single_group_do_not_name_it(
    here: CommandLine, groups: list[str], name: str, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.csv"
    flags = ("--all-topics", "--to-current", "--export")
    plan.write_text(here.text("groups", "--reset-offsets", "--group", groups[0], *flags))
    assert plan.read_text() == f"{name},0,3\n"
    from_file = ("--from-file", str(plan), "--execute")
    here.text("groups", "--reset-offsets", "--group", groups[2], *from_file)
    assert offsets(here, groups) == [3, 4, 3]
    said = here.refused("groups", "--reset-offsets", *named(groups), *from_file)
    assert "is not group,topic,partition,offset" in said
    assert offsets(here, groups) == [3, 4, 3]


def test_a_group_that_is_not_in_the_file_is_not_changed(
    here: CommandLine, groups: list[str], name: str, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{groups[0]},{name},0,8\n{groups[2]},{name},0,7\n")
    from_file = ("--from-file", str(plan), "--execute")
    done = here.call("groups", "--reset-offsets", *named(groups), *from_file)
    assert done.exit_code == 1
    assert f"No reset plan for group {groups[1]} found" in done.stderr
    assert offsets(here, groups) == [8, 4, 7]


def test_all_groups_are_those_of_consumers(here: CommandLine, groups: list[str], name: str) -> None:
    """As for Kafka's tool, no group of Kafka Connect is among them."""
    flags = ("--reset-offsets", "--all-groups", "--topic", name, "--to-latest", "--json")
    connect = f"connect-{name}"
    with member(here, connect, "connect"):
        assert connect in {row["group"] for row in here.json("groups", "--list")}
        done = here.call("groups", *flags)
    assert connect not in done.output
    assert {*groups} <= {row["group"] for row in json.loads(done.stdout)}


def test_a_refused_group_does_not_stop_the_deletion_of_the_others(
    here: CommandLine, groups: list[str]
) -> None:
    """A former defect: the command ended at the first error, and showed nothing."""
    a, b, c = groups
    refused = here.refused("groups", "--delete", *named([a, f"{a}-missing", b]))
    assert "GROUP_ID_NOT_FOUND" in refused
    assert f"this has taken effect: {a}, {b}" in refused
    left = {row["group"] for row in here.json("groups", "--list")}
    assert left.intersection(groups) == {c}
