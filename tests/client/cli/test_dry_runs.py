"""A dry run refuses the same calls as the execution, and shows the execution's changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.cli.conftest import QUICK, CommandLine
from tests.harness.broker import Oncelog


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with Oncelog(tmp_path_factory.mktemp("oncelog"), QUICK) as broker:
        yield CommandLine(broker.address)


def written(here: CommandLine, name: str, *settings: str) -> str:
    """Create a topic of one partition with three records. Return its name."""
    flags = [part for setting in settings for part in ("-c", setting)]
    here.text("topic", "create", name, "-p", "1", *flags)
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    here.text("produce", name, *keyed, lines="a:1\nb:2\nc:3\n")
    return name


def test_a_trim_of_a_compacted_topic_is_refused_with_the_reason(
    here: CommandLine, name: str
) -> None:
    written(here, name, "cleanup.policy=compact")
    for flags in ((), ("--execute",), ("-p", "0"), ("-p", "0", "--execute")):
        said = here.refused("topic", "trim", name, "--before", "2", *flags)
        assert f"POLICY_VIOLATION: {name} is compacted (cleanup.policy=compact)" in said
        assert " -p" not in said
    assert here.json("topic", "offsets", name)[0]["start"] == 0


def test_a_topic_with_the_policy_compact_delete_is_trimmed(here: CommandLine, name: str) -> None:
    written(here, name, "cleanup.policy=compact,delete")
    for execute in ((), ("--execute",)):
        (row,) = here.json("topic", "trim", name, "--before", "2", *execute)
        assert row["deleted"] == 2


def test_a_trim_beyond_the_end_names_the_end(here: CommandLine, name: str) -> None:
    written(here, name)
    for execute in ((), ("--execute",)):
        said = here.refused("topic", "trim", name, "-p", "0", "--before", "99", *execute)
        assert f"{name}-0 ends at offset 3, 99 is beyond" in said
        assert "with -p" not in said


def test_internal_topics_are_not_trimmed(here: CommandLine, name: str) -> None:
    written(here, name)
    here.text("group", "seek", name, "--topic", name, "--to", "start", "--execute")
    for execute in ((), ("--execute",)):
        said = here.refused("topic", "trim", "__consumer_offsets", "--before", "start", *execute)
        assert "__consumer_offsets is an internal topic" in said


HIGHER = "Warning: New offset ({}) is higher than latest offset for topic partition {}-0."
LOWER = "Warning: New offset ({}) is lower than earliest offset for topic partition {}-0."


def test_an_offset_outside_the_log_is_moved_into_it_with_a_warning(
    here: CommandLine, name: str
) -> None:
    written(here, name)
    here.text("topic", "trim", name, "--before", "1", "--execute")
    too_high, too_low = " Value will be set to 3", " Value will be set to 1"
    for to, warnings in {
        "99999": [HIGHER.format(99999, name) + too_high],
        "+7": [HIGHER.format(8, name) + too_high],
        "0": [LOWER.format(0, name) + too_low],
        "-5": [LOWER.format(-2, name) + too_low],
        "2": [],
        "end": [],
    }.items():
        moved = here.call("group", "seek", name, "--topic", name, "--to", to)
        assert moved.exit_code == 0, moved.output
        assert [line for line in moved.stderr.splitlines() if "New offset" in line] == warnings
    # The flags of Kafka's tool have the same effect.
    flags = ("--group", name, "--topic", name, "--to-offset", "99999")
    moved = here.call("groups", "--reset-offsets", *flags)
    assert HIGHER.format(99999, name) + too_high in moved.stderr
    assert moved.exit_code == 0
