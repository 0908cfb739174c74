"""The unchanged `kafka-transactions` of Kafka 4.3.1 against the target (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.client.cli.conftest import CommandLine
from tests.conformance.conftest import Target
from tests.conformance.differences import ABORT_OF_A_PART
from tests.harness.client_reading import read_decided
from tests.harness.hanging import hanging
from tests.harness.kafka.driver import JavaDriver
from tests.harness.transacting import add_partitions, last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import batch, end_transaction, find_coordinator, new_identity, produce

Rows = list[dict[str, str]]


class Tool:
    """kafka-transactions and a plain connection to the same broker."""

    def __init__(self, driver: JavaDriver, address: str, wire: Wire) -> None:
        self._driver = driver
        self._address = address
        self.wire = wire

    def run(self, verb: str, *arguments: str) -> str:
        """Return the tool's output. Raises ToolFailed."""
        server = ("--bootstrap-server", self._address)
        return self._driver.tool("transactions", *server, verb, *arguments).stdout

    def table(self, verb: str, *arguments: str) -> Rows:
        """Return the rows that the tool prints, by column name."""
        printed = self.run(verb, *arguments).splitlines()
        names, *rows = [line.removesuffix("\t").split("\t") for line in printed]
        columns = [name.strip() for name in names]
        return [
            dict(zip(columns, (cell.strip() for cell in row), strict=True)) for row in rows if row
        ]

    def refused(self, verb: str, *arguments: str) -> str:
        """Return the tool's error. Fails if there is none."""
        server = ("--bootstrap-server", self._address)
        result = self._driver.tool("transactions", *server, verb, *arguments, check=False)
        assert result.returncode == 1, result.stdout
        return result.stderr + result.stdout


@pytest.fixture
def tool(target: Target, java_driver: JavaDriver, wire: Wire) -> Tool:
    return Tool(java_driver, target.address, wire)


@pytest.fixture
def unverified(trusting: Target, java_driver: JavaDriver) -> Iterator[Tool]:
    """The tool, on a broker that does not verify transactions."""
    with Wire(trusting.address) as wire:
        yield Tool(java_driver, trusting.address, wire)


def test_l12_a_hanging_transaction_is_found_described_and_aborted(
    unverified: Tool, name: str
) -> None:
    """After the abort readers continue. The coordinator does not know the transaction."""
    find, place = ("--max-transaction-timeout", "0"), ("--topic", name, "--partition", "0")
    assert unverified.table("find-hanging", "--topic", name) == []
    identity = hanging(unverified.wire, name)
    (found,) = unverified.table("find-hanging", "--topic", name, *find)
    assert (found["Topic"], found["Partition"]) == (name, "0")
    assert (found["ProducerId"], found["ProducerEpoch"]) == (str(identity.producer_id), "0")
    assert (found["CoordinatorEpoch"], found["StartOffset"]) == ("-1", "0")
    everywhere = unverified.table("find-hanging", "--broker-id", "1", *find)
    assert [row for row in everywhere if row["Topic"] == name] == [found]
    (producer,) = unverified.table("describe-producers", *place)
    assert producer["CurrentTransactionStartOffset"] == "0"
    (known,) = unverified.table("describe", "--transactional-id", name)
    assert (known["TransactionState"], known["TopicPartitions"]) == ("Empty", "")
    unverified.run("abort", *place, "--start-offset", "0")
    assert last_stable_offset(unverified.wire, name) == (2, 2)
    assert unverified.table("find-hanging", "--topic", name, *find) == []
    (producer,) = unverified.table("describe-producers", *place)
    assert producer["CurrentTransactionStartOffset"] == "None"
    assert "Could not find any open" in unverified.refused("abort", *place, "--start-offset", "0")


def test_l12_a_hanging_transaction_is_aborted_by_producer_and_epochs(
    unverified: Tool, name: str
) -> None:
    """Brokers before 3.0 need the producer and both epochs."""
    identity = hanging(unverified.wire, name)
    place = ("--topic", name, "--partition", "0", "--producer-id", str(identity.producer_id))
    unverified.run("abort", *place, "--producer-epoch", "0", "--coordinator-epoch", "-1")
    assert last_stable_offset(unverified.wire, name) == (2, 2)


def test_an_open_transaction_is_listed_and_described(tool: Tool, topic: str) -> None:
    """The rows show the transactional id, the producer, the partitions and the duration."""
    identity = new_identity(tool.wire, topic, timeout_ms=50_000)
    assert add_partitions(tool.wire, identity, (topic, 0)) == [ErrorCode.NONE]
    listed = {row["TransactionalId"]: row for row in tool.table("list")}
    assert listed[topic] == {
        "TransactionalId": topic,
        "Coordinator": "1",
        "ProducerId": str(identity.producer_id),
        "TransactionState": "Ongoing",
    }
    (known,) = tool.table("describe", "--transactional-id", topic)
    started_ms, open_ms = (
        int(known.pop(column))
        for column in ("CurrentTransactionStartTimeMs", "TransactionDurationMs")
    )
    assert started_ms > 1_600_000_000_000
    assert 0 <= open_ms < 60_000
    assert known == {
        "CoordinatorId": "1",
        "TransactionalId": topic,
        "ProducerId": str(identity.producer_id),
        "ProducerEpoch": "0",
        "TransactionState": "Ongoing",
        "TransactionTimeoutMs": "50000",
        "TopicPartitions": f"{topic}-0",
    }
    assert tool.table("find-hanging", "--topic", topic, "--max-transaction-timeout", "0") == []


def test_the_list_is_filtered(tool: Tool, topic: str) -> None:
    """The list can be filtered by duration and by a pattern of the id."""
    new_identity(tool.wire, topic)

    def ids(*filters: str) -> set[str]:
        return {row["TransactionalId"] for row in tool.table("list", *filters)}

    assert ids("--transactional-id-pattern", f"{topic[:6]}.*{topic[6:]}") == {topic}
    identity = new_identity(tool.wire, f"{topic}-open")
    assert add_partitions(tool.wire, identity, (topic, 0)) == [ErrorCode.NONE]
    assert f"{topic}-open" not in ids("--duration-filter", "600000")
    assert f"{topic}-open" in ids("--duration-filter", "-1")
    assert "Failed to list transactions" in tool.refused("list", "--transactional-id-pattern", "(")


def test_the_error_for_an_unknown_transactional_id_names_the_id(tool: Tool, name: str) -> None:
    find_coordinator(tool.wire, name)
    assert name in tool.refused("describe", "--transactional-id", name)


def test_force_terminate_aborts_the_transaction_and_fences_its_producer(
    target: Target, tool: Tool, topic: str
) -> None:
    """The transaction is aborted in all partitions, and its producer is fenced."""
    identity = new_identity(tool.wire, topic)
    assert (
        produce(tool.wire, topic, batch(identity, 0), producer=identity).error_code
        == ErrorCode.NONE
    )
    tool.run("forceTerminateTransaction", "--transactionalId", topic)
    wait_until(lambda: last_stable_offset(tool.wire, topic) == (2, 2), "the abort marker")
    assert (
        tool.table("describe-producers", "--topic", topic, "--partition", "0")[0][
            "CurrentTransactionStartOffset"
        ]
        == "None"
    )
    ended = end_transaction(tool.wire, identity, commit=True)
    assert ErrorCode(ended.error_code).name == "PRODUCER_FENCED"
    written = produce(tool.wire, topic, batch(identity, 1), producer=identity)
    assert ErrorCode(written.error_code).name == "INVALID_PRODUCER_EPOCH"
    if target.name == "oncelog":
        fence, owner = fence_and_owner(target, topic)
        assert (fence["refused_producer_id"], fence["up_to_epoch"]) == (identity.producer_id, 0)
        assert (fence["cause"], fence["refusals"]) == ("operator", 2)
        assert owner == (None, None)


def test_an_abort_past_the_coordinator_has_its_own_cause(
    trusting: Target, unverified: Tool, name: str
) -> None:
    """The coordinator knows the producer, and its producer can continue."""
    identity = hanging(unverified.wire, name)
    unverified.run("abort", "--topic", name, "--partition", "0", "--start-offset", "0")
    assert last_stable_offset(unverified.wire, name) == (2, 2)
    if trusting.name == "oncelog":
        fence, (_, address) = fence_and_owner(trusting, name)
        assert (fence["cause"], fence["refusals"]) == ("operator, past the coordinator", 0)
        assert address == "/127.0.0.1"
    assert add_partitions(unverified.wire, identity, (name, 0)) == [ErrorCode.NONE]


def test_an_abort_past_the_coordinator_splits_no_transaction(
    target: Target, tool: Tool, topic: str
) -> None:
    """In Kafka, the abort of its tool ends the transaction in one partition, without the
    coordinator. A later commit makes only the records of the other partition visible. The
    broker refuses this abort, because the coordinator will end the transaction."""
    identity = new_identity(tool.wire, topic)
    for partition in range(2):
        data = batch(identity, 0, 1, b"in %d" % partition)
        sent = produce(tool.wire, topic, data, producer=identity, partition=partition)
        assert sent.error_code == ErrorCode.NONE
    abort = ("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    if ABORT_OF_A_PART.expected(target.name) == ErrorCode.NONE.name:
        tool.run(*abort)
    else:
        # The tool's text of INVALID_TXN_STATE.
        assert "a transactional operation in an invalid state" in tool.refused(*abort)
    assert end_transaction(tool.wire, identity, commit=True).error_code == ErrorCode.NONE
    seen = [b"in 1"] if target.name == "kafka" else [b"in 0", b"in 1"]
    assert asyncio.run(read_decided(target.address, topic)) == seen


def fence_and_owner(
    target: Target, topic: str
) -> tuple[dict[str, Any], tuple[str | None, str | None]]:
    """Return the reason that the coordinator recorded for the abort, and the client id and address
    of the transaction's producer. Check that the reason names Kafka's tool."""
    (row,) = CommandLine(target.address).json("transactions", "describe", topic)
    (fence,) = row["refused"]
    assert fence["by_client_id"].startswith("adminclient-")
    assert fence["by_client_address"] == "/127.0.0.1"
    return fence, (row["client_id"], row["client_address"])
