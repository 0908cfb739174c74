"""kafka-delete-records.sh and kafka-log-dirs.sh of the image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.harness.kafka.compared import BROKER, ToolPair

SERVER = ("--bootstrap-server", BROKER)


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("kafka-delete-records", ()),
        ("kafka-delete-records", ("--help",)),
        ("kafka-delete-records", SERVER),
        ("kafka-delete-records", ("--nosuch",)),
        ("kafka-delete-records", (*SERVER, "--offset-json-file", "/nosuch")),
        ("kafka-log-dirs", ()),
        ("kafka-log-dirs", SERVER),
        ("kafka-log-dirs", (*SERVER, "--describe", "--broker-list", "7")),
        ("kafka-log-dirs", (*SERVER, "--describe", "--broker-list", "x")),
    ],
    ids=str,
)
def test_a_refused_command_line(tools: ToolPair, script: str, arguments: tuple[str, ...]) -> None:
    tools.check_same(script, *arguments)


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        '{"version": 1}',
        '{"partitions": [], "version": 2}',
        '{"partitions": [{"topic": "t", "partition": 0, "offset": 1},'
        ' {"topic": "t", "partition": 0, "offset": 2}]}',
        "",
        "NaN",
        "[]",
        "7",
        '{"partitions": 7}',
        '{"partitions": [7]}',
        '{"partitions": [], "version": "1"}',
        '{"partitions": [], "version": 1.0}',
        '{"partitions": [], "version": null}',
        '{"partitions": [{"topic": "t", "partition": 0}]}',
        '{"partitions": [{"partition": 0, "offset": 1}]}',
        '{"partitions": [{"topic": "t", "offset": 1}]}',
        '{"partitions": [{"topic": 7, "partition": 0, "offset": 1}]}',
        '{"partitions": [{"topic": "t", "partition": "0", "offset": 1}]}',
        '{"partitions": [{"topic": "t", "partition": 4294967296, "offset": 1}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "offset": 2.9}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "offset": true}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "offset": "3"}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "offset": {"a\u00e4": [1, null]}}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "offset": 9223372036854775808}]}',
    ],
)
def test_a_refused_file_of_offsets(tools: ToolPair, tmp_path: Path, text: str) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(text)
    refused = tools.check_same("kafka-delete-records", *SERVER, "--offset-json-file", str(file))
    assert refused.status == 1


def test_deleted_records_and_the_sizes_of_partitions(
    tools: ToolPair, tmp_path: Path, name: str
) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    for address in (tools.kafka, tools.oncelog):
        producer = Producer({"bootstrap.servers": address})
        for _ in range(5):
            producer.produce(name, b"v")
        assert producer.flush(30) == 0
    described = ("--describe", "--topic-list", name, "--broker-list", "1")
    theirs, ours = tools.both("kafka-log-dirs", *SERVER, *described)
    assert ours.out[:2] == theirs.out[:2]
    assert masked(ours.out[2]) == masked(theirs.out[2])

    file = tmp_path / "offsets.json"
    rows = [{"topic": name, "partition": 0, "offset": 3}]
    file.write_text(json.dumps({"partitions": rows, "version": 1}))
    done = tools.check_same("kafka-delete-records", *SERVER, "--offset-json-file", str(file))
    assert done.out[-1] == f"partition: {name}-0\tlow_watermark: 3"
    rows[0]["offset"] = 99
    file.write_text(json.dumps({"partitions": rows}))
    tools.check_same("kafka-delete-records", *SERVER, "--offset-json-file", str(file))


def masked(line: str) -> Any:
    """Return the JSON of kafka-log-dirs.sh without the path of the directory."""
    parsed = json.loads(line)
    for broker in parsed["brokers"]:
        for directory in broker["logDirs"]:
            directory["logDir"] = "PATH"
            assert all(row["size"] > 0 for row in directory["partitions"])
            for row in directory["partitions"]:
                row["size"] = "SIZE"
    return parsed
