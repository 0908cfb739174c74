"""`oncelog produce` and `oncelog consume` against a running broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.client.cli.conftest import CommandLine
from tests.harness.broker import Oncelog


def test_consume_prints_the_lines_that_produce_has_read(
    command_line: CommandLine, topic: str
) -> None:
    written = command_line.json("produce", "--topic", topic, lines="one\ntwo\nthree")
    assert written == {"topic": topic, "records": 3}
    assert command_line.values(topic, count=3) == ["one", "three", "two"]


def test_a_topic_that_is_never_created_is_not_waited_for_long(tmp_path: Path) -> None:
    with Oncelog(tmp_path, {"auto.create.topics.enable": "false"}) as broker:
        flags = ("--topic", "nowhere", "--give-up-after", "3")
        said = CommandLine(broker.address).refused("produce", *flags)
    assert "there is no topic nowhere" in said


def test_keys_and_headers_are_printed_as_they_were_produced(
    command_line: CommandLine, topic: str
) -> None:
    command_line.text(
        *("produce", "--topic", topic, "--compression-codec", "zstd"),
        *("--property", "parse.key=true", "--property", "parse.headers=true"),
        lines="h:1\tk\tv\n",
    )
    printed = ("--property", "print.key=true", "--property", "print.headers=true")
    assert command_line.values(topic, *printed, count=1) == ["h:1\tk\tv"]


def test_json_output_is_one_object_a_line(command_line: CommandLine, topic: str) -> None:
    command_line.text("produce", "--topic", topic, lines="v\n")
    (line,) = command_line.values(topic, "--json", count=1)
    record = json.loads(line)
    assert (record["topic"], record["offset"], record["value"]) == (topic, 0, "v")


def test_transactions_are_committed_in_the_given_size(
    command_line: CommandLine, topic: str
) -> None:
    written = command_line.json(
        *("produce", "--topic", topic, "--transactional-id", topic, "--transaction-size", "2"),
        lines="1\n2\n3\n4\n5\n",
    )
    assert written == {"topic": topic, "records": 5, "transactions": 3}
    committed = ("--isolation-level", "read_committed")
    assert command_line.values(topic, *committed, count=5) == ["1", "2", "3", "4", "5"]


def test_a_read_committed_reader_skips_an_aborted_transaction(
    command_line: CommandLine, topic: str
) -> None:
    keyed = ("--transactional-id", topic, "--property", "parse.key=true")
    result = command_line.call("produce", "--topic", topic, *keyed, lines="k\tgood\nno key\n")
    assert result.exit_code == 1
    assert "line 2: no key.separator" in result.output
    flags = ("--from-beginning", "--timeout-ms", "1500", "--isolation-level", "read_committed")
    assert command_line.text("consume", "--topic", topic, *flags) == ""


def test_one_partition_is_read_from_an_offset(command_line: CommandLine, name: str) -> None:
    command_line.create(name)
    command_line.text("produce", "--topic", name, lines="a\nb\nc\n")
    flags = ("--partition", "0", "--offset", "1", "--max-messages", "2")
    assert command_line.text("consume", "--topic", name, *flags) == "b\nc\n"


def test_consume_continues_at_the_committed_offset_of_its_group(
    command_line: CommandLine, name: str
) -> None:
    command_line.create(name)
    command_line.text("produce", "--topic", name, lines="a\nb\nc\n")
    assert command_line.values(name, "--group", name, count=2) == ["a", "b"]
    assert command_line.values(name, "--group", name, count=1) == ["c"]


def test_a_topic_that_is_not_there_is_not_created_by_reading(
    command_line: CommandLine, name: str
) -> None:
    refused = command_line.refused("consume", "--topic", name, "--from-beginning")
    assert name in refused


def test_an_offset_without_a_partition_is_a_usage_error(
    command_line: CommandLine, name: str
) -> None:
    assert command_line.call("consume", "--topic", name, "--offset", "1").exit_code == 2


def test_a_reader_commits_and_leaves_its_group_after_a_signal(
    command_line: CommandLine, name: str
) -> None:
    """The command commits the offsets of printed records and leaves the group."""
    command_line.create(name)
    command_line.text("produce", "--topic", name, lines="a\nb\n")
    flags = ("consume", "--topic", name, "--group", name, "--from-beginning")
    reader = subprocess.Popen(
        [sys.executable, "-m", "oncelog_client.cli", *flags],
        env={**os.environ, "ONCELOG_BOOTSTRAP_SERVER": command_line.address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"a\n"
        assert reader.stdout.readline() == b"b\n"
        reader.send_signal(signal.SIGTERM)
        _, messages = reader.communicate(timeout=60)
    assert (reader.returncode, messages) == (0, b"2 records\n")
    (row,) = command_line.json("groups", "--describe", "--group", name)
    assert (row["current_offset"], row["lag"], row["consumer_id"]) == (2, 0, None)
