"""kafka-leader-election.sh of the image."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.kafka.compared import BROKER, Printed, ToolPair

SERVER = ("--bootstrap-server", BROKER)
PREFERRED = (*SERVER, "--election-type", "preferred")
UNCLEAN = (*SERVER, "--election-type", "unclean")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("--version",),
        ("--nosuch",),
        SERVER,
        ("--election-type", "preferred"),
        (*SERVER, "--election-type", "none", "--all-topic-partitions"),
        PREFERRED,
        (*PREFERRED, "--topic", "t"),
        (*PREFERRED, "--topic", "t", "--partition", "x"),
        (*PREFERRED, "--topic", "t", "--all-topic-partitions", "--partition", "1"),
        (*PREFERRED, "--partition", "1", "--all-topic-partitions"),
        (*PREFERRED, "--path-to-json-file", "/nosuch"),
        (*PREFERRED, "--all-topic-partitions", "--command-config", "/nosuch"),
        (*PREFERRED, "--all-topic-partitions", "--command-config", "/x", "--admin.config", "/x"),
    ],
    ids=" ".join,
)
def test_a_refused_command_line(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    tools.check_same("kafka-leader-election", *arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        '{"version": 1}',
        '{"partitions": 3}',
        '{"partitions": [7]}',
        '{"partitions": [{"topic": "t"}]}',
        '{"partitions": [{"topic": 1, "partition": 1}]}',
        '{"partitions": [{"topic": "t", "partition": "x"}]}',
        '{"partitions": [{"topic": "t", "partition": 1}, {"topic": "t", "partition": 1}]}',
    ],
)
def test_a_refused_file_of_partitions(tools: ToolPair, tmp_path: Path, text: str) -> None:
    file = tmp_path / "partitions.json"
    file.write_text(text)
    refused = tools.check_same(
        "kafka-leader-election", *PREFERRED, "--path-to-json-file", str(file)
    )
    assert refused.status == 1


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN], ids=["preferred", "unclean"])
def test_partitions_that_have_their_leader_and_unknown_ones(
    tools: ToolPair, tmp_path: Path, name: str, kind: tuple[str, ...]
) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name, "--partitions", "2")
    named = (*kind, "--topic", name, "--partition", "1")
    done = tools.check_same("kafka-leader-election", *named)
    assert done.out == [f"Valid replica already elected for partitions {name}-1"]
    unknown = (*kind, "--topic", f"{name}-not", "--partition", "0")
    assert tools.check_same("kafka-leader-election", *unknown).status == 1
    file = tmp_path / "partitions.json"
    rows = [{"topic": name, "partition": number} for number in (0, 1, 7)]
    file.write_text(json.dumps({"partitions": rows, "version": 1}))
    theirs, ours = tools.both("kafka-leader-election", *kind, "--path-to-json-file", str(file))
    assert sorted_names(ours) == sorted_names(theirs)
    assert tools.check_same("kafka-leader-election", *kind, "--all-topic-partitions").status == 0


def sorted_names(found: Printed) -> Printed:
    """Return the output with the names of partitions in order. Kafka's tool has no order."""
    head, names = found.out[0].rsplit(" partitions ", 1)
    ordered = ", ".join(sorted(names.split(", ")))
    return found._replace(out=[f"{head} partitions {ordered}", *found.out[1:]])
