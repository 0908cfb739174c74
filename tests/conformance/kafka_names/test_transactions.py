"""kafka-transactions.sh of the image prints the lines of Kafka's tool of this name."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from tests.harness.broker import Oncelog
from tests.harness.hanging import VERIFICATION, hanging
from tests.harness.kafka.compared import BROKER, ToolPair, run_ours

SERVER = ("--bootstrap-server", BROKER)
NOWHERE = ("--topic", "nosuch", "--partition", "0")
MARKER = ("--producer-id", "1", "--producer-epoch", "0", "--coordinator-epoch", "0")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("list",),
        SERVER,
        (*SERVER, "nosuch"),
        (*SERVER, "describe"),
        (*SERVER, "describe-producers", "--topic", "t"),
        (*SERVER, "describe", "--transactional-id", "nosuch"),
        (*SERVER, "find-hanging"),
        (*SERVER, "find-hanging", "--partition", "0", "--broker-id", "1"),
        (*SERVER, "abort", "--topic", "t", "--partition", "0"),
        (*SERVER, "abort", "--topic", "t", "--partition", "0", "--producer-id", "1"),
        (
            *(*SERVER, "abort", "--topic", "t", "--partition", "0", "--producer-id", "1"),
            *("--producer-epoch", "0"),
        ),
    ],
    ids=" ".join,
)
def test_a_refused_command_line(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    refused = tools.check_same("kafka-transactions", *arguments)
    assert refused.status == 1


@pytest.mark.parametrize(
    "arguments",
    [
        (*SERVER, "describe-producers", "--topic", "nosuch", "--partition", "0"),
        (
            *SERVER,
            "describe-producers",
            "--topic",
            "nosuch",
            "--partition",
            "0",
            "--broker-id",
            "1",
        ),
        (
            *SERVER,
            "describe-producers",
            "--topic",
            "nosuch",
            "--partition",
            "0",
            "--broker-id",
            "9",
        ),
        (*SERVER, "describe-producers", "--topic", "bad name!", "--partition", "0"),
        (*SERVER, "find-hanging", *NOWHERE),
        (*SERVER, "find-hanging", *NOWHERE, "--broker-id", "9"),
        (*SERVER, "find-hanging", "--topic", "bad name!", "--partition", "0"),
        (*SERVER, "abort", *NOWHERE, "--start-offset", "0"),
        (*SERVER, "abort", *NOWHERE, *MARKER),
        ("--bootstrap-server", "127.0.0.1:1", "find-hanging", *NOWHERE),
        ("--bootstrap-server", "127.0.0.1:1", "find-hanging", "--topic", "t"),
        ("--bootstrap-server", "127.0.0.1:1", "find-hanging", "--broker-id", "9"),
        ("--bootstrap-server", "127.0.0.1:1", "abort", *NOWHERE, *MARKER),
        ("--bootstrap-server", "127.0.0.1:1", "list"),
        ("--bootstrap-server", "127.0.0.1:1", "describe", "--transactional-id", "t"),
    ],
    ids=" ".join,
)
def test_a_failure_after_the_timeout(
    tools: ToolPair, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Both tools print the same words. Times and numbers of attempts differ, and so may the words
    for the state of the call at its end."""
    file = tmp_path / "client.properties"
    file.write_text("default.api.timeout.ms=2500\nrequest.timeout.ms=1500\n")
    both = tools.both("kafka-transactions", "--command-config", str(file), *arguments)
    theirs, ours = (([without_chance(line) for line in t.errors], t.status) for t in both)
    assert ours == theirs
    assert ours[1] == 1


# The two texts for the end of a call: between two attempts, or without a node to be sent to.
_BETWEEN_ATTEMPTS = re.compile(
    r"Call\(callName=(\S+), deadlineMs=\d+, tries=\d+, nextAllowedTryMs=\d+\) "
    r"timed out at \d+ after \d+ attempt\(s\)\."
)
_WITHOUT_NODE = re.compile(r"Timed out waiting for a node assignment\. Call: (\S+?)\.?(?=$| )")


def without_chance(line: str) -> str:
    """Replace the parts of a line that differ between two runs of Kafka's own tool."""
    for text in (_BETWEEN_ATTEMPTS, _WITHOUT_NODE):
        line = text.sub(r"\1 ended.", line)
    return re.sub(r"\d+", "N", line)


def test_open_and_empty_transactions(tools: ToolPair, name: str) -> None:
    """Both tools print the same lines about the same broker, except for the duration."""
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    for address in (tools.kafka, tools.oncelog):
        settings = {"bootstrap.servers": address}
        producer = Producer(settings | {"transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(name, b"v", partition=0)
        assert producer.flush(30) == 0
        Producer(settings | {"transactional.id": f"{name}-and-more"}).init_transactions(30)

        def same(*arguments: str, server: str = address) -> list[str]:
            words = ("--bootstrap-server", server, *arguments)
            ours = run_ours("kafka-transactions", *words)
            theirs = tools.kafka_tool("kafka-transactions", *words)
            assert sorted(map(_timeless, ours.lines)) == sorted(map(_timeless, theirs.lines))
            return ours.lines

        assert sum(name in line for line in same("list")) == 2
        assert "Ongoing" in same("describe", "--transactional-id", name)[1]
        assert "Empty" in same("describe", "--transactional-id", f"{name}-and-more")[1]
        producers = ("describe-producers", "--topic", name, "--partition", "0")
        assert len(same(*producers)) == 2
        producer.abort_transaction(30)


def _timeless(line: str) -> list[str]:
    """Return the cells of a line without the duration of a transaction, the only column that
    differs from call to call."""
    cells = [cell.strip() for cell in line.split("\t")]
    return [cell for at, cell in enumerate(cells) if at != 7]


@pytest.mark.parametrize(
    "where",
    [("--broker-id", "9"), ("--broker-id", "1"), ("--topic",), ("--topic", "--broker-id", "9")],
    ids=" ".join,
)
def test_a_search_without_a_hanging_transaction_prints_the_columns(
    tools: ToolPair, name: str, where: tuple[str, ...]
) -> None:
    """Also for a broker that does not exist."""
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    words = [word for flag in where for word in ((flag, name) if flag == "--topic" else (flag,))]
    printed = tools.check_same("kafka-transactions", *SERVER, "find-hanging", *words)
    assert [line.split()[0] for line in printed.out] == ["Topic"]


def test_hanging_transactions_are_in_kafkas_table(
    tools: ToolPair, name: str, tmp_path: Path
) -> None:
    """Both tools print the same lines about the same broker."""
    with (
        Oncelog(tmp_path, {**QUICK, VERIFICATION: "false"}) as broker,
        Wire(broker.address) as wire,
    ):
        server = ("--bootstrap-server", broker.address)
        run_ours("kafka-topics", *server, "--create", "--topic", name)
        identity = hanging(wire, name)
        for where in (("--topic", name), ("--broker-id", "1")):
            words = (*server, "find-hanging", *where, "--max-transaction-timeout", "0")
            ours, theirs = (
                run_ours("kafka-transactions", *words),
                tools.kafka_tool("kafka-transactions", *words),
            )
            assert ours.lines == theirs.lines
            assert ours.lines[1].split()[:3] == [name, "0", str(identity.producer_id)]


def test_hanging_transactions_of_an_unknown_topic(tools: ToolPair, name: str) -> None:
    printed = tools.check_same("kafka-transactions", *SERVER, "find-hanging", "--topic", name)
    assert printed.status == 1
    assert "Failed to describe 1 topics" in printed.errors[0]


@pytest.mark.parametrize(
    ("topic", "command"),
    [
        ("known", ("find-hanging",)),
        ("nosuch", ("describe-producers",)),
        ("nosuch", ("abort", "--start-offset", "0")),
    ],
    ids=str,
)
def test_an_unknown_partition_is_awaited_for_seconds_and_not_for_a_minute(
    tools: ToolPair, name: str, topic: str, command: tuple[str, ...]
) -> None:
    """The only difference from Kafka's tool (docs/image.md). Its words are the same, so the end of
    the call in them shows that the tool did not wait as long."""
    server = ("--bootstrap-server", tools.oncelog)
    if topic == "known":
        topic = name
        run_ours("kafka-topics", *server, "--create", "--topic", topic)
    before_ms = time.time_ns() // 1_000_000
    place = ("--topic", topic, "--partition", "7")
    failed = run_ours("kafka-transactions", *server, *command, *place)
    assert failed.returncode == 1
    found = re.search(r"timed out at (\d+) after \d+ attempt", failed.stderr)
    assert found is not None, failed.stderr
    assert int(found[1]) - before_ms < 30_000


def test_an_abort_at_an_offset_without_an_open_transaction(tools: ToolPair, name: str) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    place = ("--topic", name, "--partition", "0", "--start-offset", "9")
    refused = tools.check_same("kafka-transactions", *SERVER, "abort", *place)
    assert refused.errors == [
        f"Could not find any open transactions starting at offset 9 on partition {name}-0"
    ]


def test_a_change_takes_every_setting_of_kafkas_clients(
    tools: ToolPair, name: str, tmp_path: Path
) -> None:
    """Our own command ends the transaction. It refuses unknown settings."""
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    file = tmp_path / "client.properties"
    file.write_text("client.dns.lookup=use_all_dns_ips\nreceive.buffer.bytes = 65536\n")
    producer = Producer({"bootstrap.servers": tools.oncelog, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"v", partition=0)
    assert producer.flush(30) == 0
    server = ("--bootstrap-server", tools.oncelog, "--command-config", str(file))
    ended = run_ours(
        "kafka-transactions", *server, "forceTerminateTransaction", "--transactionalId", name
    )
    assert ended.returncode == 0, ended.stderr
    described = run_ours("kafka-transactions", *server, "describe", "--transactional-id", name)
    assert "Ongoing" not in described.stdout


def test_an_abort_takes_every_setting_of_kafkas_clients(tmp_path: Path, name: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.dns.lookup=use_all_dns_ips\n")
    with (
        Oncelog(tmp_path / "data", {**QUICK, VERIFICATION: "false"}) as broker,
        Wire(broker.address) as wire,
    ):
        server = ("--bootstrap-server", broker.address)
        run_ours("kafka-topics", *server, "--create", "--topic", name)
        hanging(wire, name)
        words = (*server, "--command-config", str(file), "abort")
        place = ("--topic", name, "--partition", "0", "--start-offset", "0")
        aborted = run_ours("kafka-transactions", *words, *place)
        assert aborted.returncode == 0, aborted.stderr
