"""kafka-cluster.sh, kafka-broker-api-versions.sh, kafka-storage.sh and kafka-run-class.sh."""

from __future__ import annotations

import re

import pytest

from oncelog_client.kafka_tools.broker_api_versions import versions_text
from oncelog_client.kafka_tools.kafka_apis import kafka_apis
from oncelog_protocol.messages.api_versions import ApiVersion
from tests.harness.kafka.compared import BROKER, ToolPair, run_ours
from tests.harness.kafka.tools import run_tool

SERVER = ("--bootstrap-server", BROKER)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nosuch",),
        ("cluster-id",),
        ("cluster-id", *SERVER, "--nosuch", "x"),
        ("cluster-id", "--bootstrap-server"),
        ("cluster-id", "--bootstrap-server", "localhost"),
        ("cluster-id", *SERVER, "--bootstrap-controller", "x"),
        ("unregister", *SERVER),
        ("list-endpoints", *SERVER, "extra"),
        ("--help",),
        ("cluster-id", "--help"),
    ],
    ids=" ".join,
)
def test_a_refused_command_line_of_kafka_cluster(
    tools: ToolPair, arguments: tuple[str, ...]
) -> None:
    tools.check_same("kafka-cluster", *arguments)


def test_the_id_and_the_endpoints_of_a_cluster(tools: ToolPair) -> None:
    """Both tools print the same lines about the same broker."""
    for address in (tools.kafka, tools.oncelog):
        for command in ("cluster-id", "list-endpoints"):
            arguments = (command, "--bootstrap-server", address)
            theirs = tools.kafka_tool("kafka-cluster", *arguments)
            assert run_ours("kafka-cluster", *arguments) == theirs


def test_an_unknown_broker_is_not_unregistered(tools: ToolPair) -> None:
    """Kafka's client also logs the error on standard output."""
    theirs, ours = tools.both("kafka-cluster", "unregister", *SERVER, "--id", "77")
    assert ours == theirs._replace(out=[])
    assert ours.status == 1
    assert "Broker ID 77 is not currently registered" in ours.errors[0]


def test_fenced_brokers_are_endpoints_if_they_are_wanted(tools: ToolPair) -> None:
    for address in (tools.kafka, tools.oncelog):
        arguments = ("list-endpoints", "--bootstrap-server", address, "--include-fenced-brokers")
        theirs = tools.kafka_tool("kafka-cluster", *arguments)
        assert run_ours("kafka-cluster", *arguments) == theirs


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("--nosuch",),
        ("--bootstrap-server",),
        ("--bootstrap-server", "localhost:1"),
        (*SERVER, "--command-config", "/nosuch"),
    ],
    ids=" ".join,
)
def test_a_refused_command_line_of_kafka_broker_api_versions(
    tools: ToolPair, arguments: tuple[str, ...]
) -> None:
    tools.check_same("kafka-broker-api-versions", *arguments)


def test_the_versions_of_a_broker(tools: ToolPair) -> None:
    """Both tools print the same lines about the same broker. oncelog lacks some APIs of Kafka."""
    for address in (tools.kafka, tools.oncelog):
        server = ("--bootstrap-server", address)
        theirs = tools.kafka_tool("kafka-broker-api-versions", *server)
        ours = run_ours("kafka-broker-api-versions", *server)
        assert ours.stdout == theirs.stdout
        assert ours.returncode == theirs.returncode == 0


def test_apis_that_kafkas_client_does_not_know_or_cannot_use() -> None:
    rows = [
        ApiVersion(api_key=0, min_version=90, max_version=91),
        ApiVersion(api_key=1, min_version=0, max_version=3),
        ApiVersion(api_key=999, min_version=2, max_version=2),
    ]
    lines = versions_text(rows).splitlines()
    assert lines[0] == "("
    assert lines[1] == "\tProduce(0): 90 to 91 [unusable: node too new],"
    assert lines[2] == "\tFetch(1): 0 to 3 [unusable: node too old],"
    assert lines[3] == "\tListOffsets(2): UNSUPPORTED,"
    assert lines[-2:] == ["\tUNKNOWN(999): 2", ")"]
    assert len(lines) == len(kafka_apis()) + 3


@pytest.mark.parametrize("arguments", [(), ("nosuch",)], ids=" ".join)
def test_a_refused_command_line_of_kafka_storage(
    tools: ToolPair, arguments: tuple[str, ...]
) -> None:
    tools.check_same("kafka-storage", *arguments)


def test_an_id_for_a_cluster() -> None:
    """Compose files call `kafka-storage.sh random-uuid`, and `format` before the start."""
    ours = run_ours("kafka-storage", "random-uuid")
    assert re.fullmatch(r"\w[\w-]{21}\n", ours.stdout)
    formatted = run_ours("kafka-storage", "format", "-t", "x", "-c", "y", "--ignore-formatted")
    assert formatted.returncode == 0
    assert "changes nothing" in formatted.stdout


def test_a_tool_by_the_name_of_its_class(tools: ToolPair) -> None:
    theirs = run_tool("get-offsets", "--version")
    ours = run_ours("kafka-run-class", "kafka.tools.GetOffsetShell", "--version")
    assert ours == theirs
    acls = run_ours("kafka-run-class", "kafka.admin.AclCommand", "--version")
    assert acls == theirs
    dump = run_ours("kafka-run-class", "kafka.tools.DumpLogSegments", "--files", "/nosuch.log")
    assert "/nosuch.log" in dump.stderr
    missing = run_ours("kafka-run-class", "kafka.tools.NoSuch")
    assert missing.returncode == 1
    assert missing.stderr.startswith("Error: Could not find or load main class kafka.tools.NoSuch")
