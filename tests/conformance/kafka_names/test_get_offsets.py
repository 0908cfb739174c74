"""kafka-get-offsets.sh of the image prints the lines of Kafka's tool of this name."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from oncelog_client.kafka_tools.partition_patterns import patterns_of
from tests.harness.kafka.compared import BROKER, ToolPair

SERVER = ("--bootstrap-server", BROKER)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("--nosuch",),
        ("--topic", "x"),
        (*SERVER, "--topic", "nosuch"),
        (*SERVER, "--topic", "x", "--time", "soon"),
        (*SERVER, "--topic", "x", "--topic-partitions", "x:1"),
        (*SERVER, "--topic", "x", "--partitions", "first"),
        (*SERVER, "--topic", "("),
    ],
    ids=" ".join,
)
def test_a_refused_command_line(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    tools.check_same("kafka-get-offsets", *arguments)


def test_offsets_by_time(tools: ToolPair, name: str) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name, "--partitions", "3")
    for address in (tools.kafka, tools.oncelog):
        producer = Producer({"bootstrap.servers": address})
        for at in range(5):
            producer.produce(name, b"v", partition=at % 2, timestamp=1_000 + at)
        assert producer.flush(30) == 0

    def offsets(*arguments: str) -> list[str]:
        return tools.check_same("kafka-get-offsets", *SERVER, *arguments).out

    assert offsets("--topic", name) == [f"{name}:0:3", f"{name}:1:2", f"{name}:2:0"]
    assert offsets("--topic", name, "--time", "-2") == [f"{name}:{at}:0" for at in range(3)]
    assert offsets("--topic", name, "--time", "max-timestamp") == [f"{name}:0:2", f"{name}:1:1"]
    assert offsets("--topic", name, "--time", "1003") == [f"{name}:0:2", f"{name}:1:1"]
    assert offsets("--topic", f"{name}|x", "--partitions", "0,2", "--time", "latest") == [
        f"{name}:0:3",
        f"{name}:2:0",
    ]
    assert offsets("--topic-partitions", f"{name}:1-,nosuch:0") == [f"{name}:1:2", f"{name}:2:0"]


def test_patterns_of_partitions() -> None:
    patterns = patterns_of("a:1,b:2-4,c,d:-2,e:3-,:7")
    matching = {
        (topic, partition)
        for topic in "abcdef"
        for partition in range(9)
        if any(pattern.matches(topic, partition) for pattern in patterns)
    }
    expected = {("a", 1), ("b", 2), ("b", 3), ("d", 0), ("d", 1)}
    expected |= {("c", partition) for partition in range(9)}
    expected |= {("e", partition) for partition in range(3, 9)}
    expected |= {(topic, 7) for topic in "abcdef"}
    assert matching == expected
