"""Transactions by Apache Kafka's own tools, with `--command-config`: from outside the container."""

from __future__ import annotations

from pathlib import Path

from tests.harness.kafka.tools import run_tool

RECORDS = 500
RECORD_BYTES = 20
TOPIC = "by-tools"
TRANSACTIONAL_ID = "image-test-tools"
TIMEOUT_MS = 30_000


def check_tools(address: str, properties: Path) -> list[str]:
    """Create a topic, write transactions, and read what is committed, each by its tool of Kafka.
    Return the read values. Raises ToolFailed. Raises AssertionError if a record is lost or
    duplicated."""
    where = ("--bootstrap-server", address, "--command-config", str(properties))
    run_tool("topics", *where, "--create", "--topic", TOPIC, "--partitions", "1")
    written = run_tool(
        "producer-perf", *where, "--topic", TOPIC, "--num-records", str(RECORDS),
        "--record-size", str(RECORD_BYTES), "--throughput", "-1",
        "--transactional-id", TRANSACTIONAL_ID, "--transaction-duration-ms", "50",
    )  # fmt: skip
    assert f"{RECORDS} records sent" in written.stdout, written
    listed = run_tool("transactions", *where, "list")
    assert any(TRANSACTIONAL_ID in line and "CompleteCommit" in line for line in listed.lines)
    read = run_tool(
        "console-consumer", *where, "--topic", TOPIC, "--from-beginning",
        "--isolation-level", "read_committed", "--max-messages", str(RECORDS),
        "--timeout-ms", str(TIMEOUT_MS),
    )  # fmt: skip
    # The values are random letters. The log of the tool may be on its output too.
    values = [line for line in read.lines if len(line) == RECORD_BYTES and line.isalpha()]
    assert len(set(values)) == len(values) == RECORDS, (len(values), read.stderr)
    return values
