"""Kafka's own command line tools, unchanged. `TOOLS` lists them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.harness.kafka.jars import class_archive, classpath, java

# A JVM alone takes 60 s on a computer with much other work.
TOOL_TIMEOUT_S = 180.0
# The tools are short-lived, so the optimizing compiler would not pay off.
TOOL_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

TOOLS: Mapping[str, str] = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "end-to-end-latency": "org.apache.kafka.tools.EndToEndLatency",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "jmx": "org.apache.kafka.tools.JmxTool",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "storage": "kafka.tools.StorageTool",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


class ToolFailed(Exception):
    """A tool ended with an unexpected exit code. The message has its whole output."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The output of a tool, and its exit code."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """Return the non-empty lines of the standard output."""
        return [line for line in self.stdout.splitlines() if line.strip()]


def tool_command(name: str, *arguments: str) -> list[str]:
    """Return the command line of a tool by its short name. Raises KafkaUnavailable, KeyError."""
    options = (*TOOL_JVM_OPTIONS, *class_archive().options)
    return [java(), *options, "-cp", classpath(), TOOLS[name], *arguments]


def run_tool(
    name: str,
    *arguments: str,
    input: str | None = None,
    timeout_s: float = TOOL_TIMEOUT_S,
    check: bool = True,
) -> ToolResult:
    """Run a tool to its end, in its own JVM.

    Raises ToolFailed if the exit code is not 0 (unless `check` is false), KafkaUnavailable, and
    subprocess.TimeoutExpired after `timeout_s`.
    """
    outcome = subprocess.run(
        tool_command(name, *arguments),
        input=input,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if check and outcome.returncode:
        printed = f"{outcome.stdout}\n{outcome.stderr}"
        raise ToolFailed(f"{name} {' '.join(arguments)} -> {outcome.returncode}\n{printed}")
    return ToolResult(outcome.returncode, outcome.stdout, outcome.stderr)


def start_tool(name: str, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
    """Start a tool, and return its process. The caller stops it. Its output is added to `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(
            tool_command(name, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
