"""Kafka's own command line tools, unchanged, against each broker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.conformance.clients import Client, Record
from tests.conformance.conftest import KEPT, Target, create_topic
from tests.conformance.polling import read
from tests.harness.kafka.driver import JavaDriver
from tests.harness.kafka.tools import run_tool
from tests.harness.waiting import wait_until


def events(lines: Iterable[str], name: str) -> list[dict[str, Any]]:
    """Return the events of this name from the JSON lines of the verifiable tools."""
    parsed = [json.loads(line) for line in lines if line.startswith("{")]
    return [row for row in parsed if row["name"] == name]


def test_kafka_topics(target: Target, java_driver: JavaDriver, name: str) -> None:
    """kafka-topics creates, lists, describes, alters and deletes topics."""

    def topics(*arguments: str, check: bool = True) -> str:
        server = ("--bootstrap-server", target.address)
        result = java_driver.tool("topics", *server, *arguments, check=check)
        return result.stdout + result.stderr

    # Kafka responds before its broker knows of a new topic, a change or a deletion.
    created = topics("--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=1")
    assert f"Created topic {name}." in created
    wait_until(lambda: name in topics("--list").splitlines(), "the topic is listed")
    described = topics("--describe", "--topic", name)
    assert "PartitionCount: 2\tReplicationFactor: 1" in described
    assert "retention.ms=1" in described
    assert f"Topic: {name}\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1" in described
    assert "already exists" in topics("--create", "--topic", name, check=False)
    topics("--alter", "--topic", name, "--partitions", "5")
    wait_until(
        lambda: "PartitionCount: 5" in topics("--describe", "--topic", name), "five partitions"
    )
    assert "TopicId: " in described
    topics("--delete", "--topic", name)
    wait_until(lambda: name not in topics("--list").splitlines(), "the topic is gone")


def test_kafka_configs(target: Target, java_driver: JavaDriver, topic: str) -> None:
    """kafka-configs describes and alters the settings of a topic, incrementally (KIP-339)."""

    def configs(*arguments: str) -> str:
        entity = ("--entity-type", "topics", "--entity-name", topic)
        server = ("--bootstrap-server", target.address)
        return java_driver.tool("configs", *server, *entity, *arguments).stdout

    # Kafka responds before its broker knows of the change.
    configs("--alter", "--add-config", "retention.ms=3600000,max.message.bytes=2000000")
    wait_until(lambda: "retention.ms=3600000" in configs("--describe"), "the setting is there")
    assert "max.message.bytes=2000000" in configs("--describe")
    configs("--alter", "--delete-config", "retention.ms")
    wait_until(lambda: "retention.ms" not in configs("--describe"), "the setting is gone")
    assert "max.message.bytes=2000000" in configs("--describe")
    assert "segment.bytes=1073741824" in configs("--describe", "--all")


def test_kafka_configs_of_users(target: Target, java_driver: JavaDriver, name: str) -> None:
    """kafka-configs sets, shows and deletes the SCRAM credentials of a user (KIP-554)."""

    def configs(*arguments: str) -> str:
        entity = ("--entity-type", "users", "--entity-name", name)
        server = ("--bootstrap-server", target.address)
        return java_driver.tool("configs", *server, *entity, *arguments).stdout

    configs("--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=a-secret]")
    line = f"SCRAM credential configs for user-principal '{name}' are SCRAM-SHA-256=iterations=8192"
    wait_until(lambda: configs("--describe") == f"{line}\n", "the credential is there")
    configs("--alter", "--delete-config", "SCRAM-SHA-256")
    wait_until(lambda: configs("--describe") == "", "the credential is gone")


def test_kafka_tools_for_security_and_quotas(target: Target, java_driver: JavaDriver) -> None:
    """B5: the tools for ACLs, users and quotas, without an authorizer. MirrorMaker lists ACLs at
    its start, and logs a stack trace for any error code but SECURITY_DISABLED."""

    def tool(name: str, *arguments: str) -> str:
        server = ("--bootstrap-server", target.address)
        result = java_driver.tool(name, *server, *arguments, check=False)
        return result.stdout + result.stderr

    listed = tool("acls", "--list")
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in listed
    right = ("--allow-principal", "User:x", "--operation", "Read", "--topic", "t")
    added = tool("acls", "--add", *right)
    assert "SecurityDisabledException: No Authorizer is configured" in added
    for kind in ("users", "clients", "ips"):
        assert "xception" not in tool("configs", "--describe", "--entity-type", kind), kind


def test_kafka_tools_for_leaders_and_moves(
    target: Target, java_driver: JavaDriver, topic: str
) -> None:
    """B5: every partition has its only leader already, and no reassignment is in progress."""

    def tool(name: str, *arguments: str) -> str:
        server = ("--bootstrap-server", target.address)
        return java_driver.tool(name, *server, *arguments).stdout

    place = ("--topic", topic, "--partition", "0")
    elected = tool("leader-election", "--election-type", "preferred", *place)
    assert f"Valid replica already elected for partitions {topic}-0" in elected
    assert "No partition reassignments found." in tool("reassign-partitions", "--list")


def test_kafka_features(target: Target, java_driver: JavaDriver) -> None:
    """kafka-features shows the levels, and checks changes of them."""

    def features(*arguments: str, check: bool = True) -> str:
        server = ("--bootstrap-server", target.address)
        result = java_driver.tool("features", *server, *arguments, check=check)
        return result.stdout + result.stderr

    described = [line.split() for line in features("describe").splitlines()]
    (line,) = [words for words in described if words[1] == "transaction.version"]
    assert (line[3], line[5], line[7]) == ("0", "2", "2")
    level = ("--feature", "transaction.version=2")
    assert "transaction.version was upgraded to 2." in features("upgrade", *level)
    lower = ("--feature", "transaction.version=1", "--dry-run")
    assert "transaction.version can be downgraded to 1." in features("downgrade", *lower)
    refused = features("upgrade", *lower, check=False)
    assert "Can't downgrade the version of this feature without setting the upgrade" in refused
    refused = features("upgrade", "--feature", "transaction.version=3", "--dry-run", check=False)
    assert "only supports versions 0-2" in refused


def test_kafka_consumer_groups(
    target: Target, java_driver: JavaDriver, python_clients: dict[str, Client], topic: str
) -> None:
    """kafka-consumer-groups lists and describes groups and members, resets offsets, and deletes."""

    def groups(*arguments: str) -> list[list[str]]:
        server = ("--bootstrap-server", target.address)
        return [
            line.split() for line in java_driver.tool("consumer-groups", *server, *arguments).lines
        ]

    client = python_clients["confluent-kafka"]
    client.producer(target.address).send(topic, [Record(b"%d" % at) for at in range(10)])
    consumer = client.consumer(target.address, topic, group=topic)
    read(consumer, 10)
    consumer.commit({0: 4})
    assert [topic] in groups("--list")
    ours = ("--group", topic)
    lines = groups("--describe", *ours)
    assert [topic, topic, "0", "4", "10", "6"] in [line[:6] for line in lines]
    assert [line[-1] for line in groups("--describe", *ours, "--members")[1:]] == ["3"]
    assert "Stable" in groups("--describe", *ours, "--state")[1]
    consumer.close()
    wait_until(lambda: "Empty" in groups("--describe", *ours, "--state")[-1], "the group is empty")
    reset = ("--reset-offsets", "--topic", topic, "--to-earliest", "--execute")
    groups(*ours, *reset)
    lines = groups("--describe", *ours)
    assert [topic, topic, "0", "0", "10", "10"] in [line[:6] for line in lines]
    assert "successful." in " ".join(groups("--delete", *ours)[0])
    assert [topic] not in groups("--list")


def test_kafka_get_offsets(
    target: Target,
    java_driver: JavaDriver,
    python_clients: dict[str, Client],
    admin: Any,
    name: str,
) -> None:
    """kafka-get-offsets returns the earliest and latest offsets, the offsets of a timestamp, and
    the offset of the largest timestamp (KIP-734)."""
    topic = name
    create_topic(admin, topic, partitions=3, config=KEPT)

    def offsets(time: str) -> str:
        server = ("--bootstrap-server", target.address)
        return java_driver.tool("get-offsets", *server, "--topic", topic, "--time", time).stdout

    records = [Record(b"v", timestamp=stamp) for stamp in (10, 30, 20)]
    python_clients["confluent-kafka"].producer(target.address).send(topic, records)
    assert f"{topic}:0:0" in offsets("-2")
    assert f"{topic}:0:3" in offsets("-1")
    assert f"{topic}:0:1" in offsets("-3")
    assert f"{topic}:0:1" in offsets("15")


def test_verifiable_producer_and_consumer(target: Target, kafka_jars: str, topic: str) -> None:
    """Kafka's own system tests use this pair. All records are sent, acknowledged, consumed and
    committed."""
    server = ("--bootstrap-server", target.address, "--topic", topic)
    sent = run_tool("verifiable-producer", *server, "--max-messages", "1000", "--acks", "-1")
    summary = events(sent.lines, "tool_data")[0]
    assert (summary["sent"], summary["acked"]) == (1000, 1000)
    consumed = run_tool(
        "verifiable-consumer", *server, "--group-id", topic, "--max-messages", "1000"
    )
    assert sum(event["count"] for event in events(consumed.lines, "records_consumed")) == 1000
    assert all(event["success"] for event in events(consumed.lines, "offsets_committed"))


def test_console_producer_and_consumer(
    target: Target, kafka_jars: str, java_driver: JavaDriver, topic: str
) -> None:
    """The console consumer prints the lines of the console producer. Only the producer sets the
    codec."""
    server = ("--bootstrap-server", target.address, "--topic", topic)
    lines = [f"line {number}" for number in range(50)]
    arguments = (*server, "--compression-codec", "snappy")
    run_tool("console-producer", *arguments, input="\n".join(lines) + "\n")
    back = run_tool("console-consumer", *server, "--from-beginning", "--max-messages", "50")
    assert sorted(back.lines) == sorted(lines)


def test_transactional_message_copier(
    target: Target,
    kafka_jars: str,
    python_clients: dict[str, Client],
    admin: Any,
    topic: str,
) -> None:
    """Kafka's own exactly-once loop, with random aborts and the group metadata of KIP-447."""
    sink = f"{topic}-copy"
    create_topic(admin, sink, partitions=1)
    client = python_clients["confluent-kafka"]
    expected = [f"{number:04}" for number in range(1000)]
    client.producer(target.address).send(topic, [Record(text.encode()) for text in expected])
    copied = run_tool(
        "transactional-message-copier",
        *("--broker-list", target.address, "--transactional-id", sink),
        *("--input-topic", topic, "--input-partition", "0", "--output-topic", sink),
        *("--consumer-group", sink, "--transaction-size", "50"),
        *("--enable-random-aborts", "--group-mode", "--use-group-metadata"),
    )
    assert '"remaining":0' in copied.lines[-1]
    reader = client.consumer(target.address, sink, partitions=[0], read_committed=True)
    found = [(record.value or b"").decode() for record in read(reader, len(expected))]
    assert found == expected
    assert reader.poll(0.3) == []


def test_producer_perf(target: Target, java_driver: JavaDriver, topic: str) -> None:
    """Kafka's load generator for transactions. The broker acknowledges every record."""
    printed = java_driver.tool(
        "producer-perf",
        *("--topic", topic, "--num-records", "5000", "--record-size", "100"),
        *("--throughput", "-1", "--transactional-id", topic, "--transaction-duration-ms", "50"),
        *("--command-property", f"bootstrap.servers={target.address}"),
    ).stdout
    assert "5000 records sent" in printed
