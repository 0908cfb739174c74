"""The offsets of groups are shown although a partition has no leader. Its end and lag are
unknown."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

import pytest

from oncelog.testing.broker import QUICK
from oncelog_client import Admin, Consumer, TopicPartition
from oncelog_client.admin import PartitionLag
from oncelog_client.kafka_tools.tools import run_tool
from tests.client.cli.conftest import CommandLine
from tests.client.cli.test_late_partitions import TOPIC, fill
from tests.harness.broker import Oncelog
from tests.harness.driving import damage

# No command waits for the leader until its timeout.
AT_ONCE_S = 8.0
LED, OFFLINE = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


@pytest.fixture(scope="module")
def halved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """A broker that serves one of the topic's two partitions. The group `g` is at offset 1 of
    both."""
    broker = Oncelog(tmp_path_factory.mktemp("halved"), QUICK)
    with broker:
        fill(broker.address)
        call = CommandLine(broker.address)
        call.text("group", "seek", "g", "--to", "1", "--topic", TOPIC, "--execute")
    damage(broker.data / f"{TOPIC}-1" / f"{0:020}.log", 16)  # the magic byte
    with broker:
        yield CommandLine(broker.address)


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    began_s = time.monotonic()
    yield
    assert time.monotonic() - began_s < AT_ONCE_S


def test_a_group_is_described(halved: CommandLine) -> None:
    led, offline = halved.json("group", "describe", "g")
    shown = "current_offset", "log_end_offset", "lag", "held_back"
    assert [led[name] for name in shown] == [1, 2, 1, 0]
    assert [offline[name] for name in shown] == [1, None, None, None]


async def test_the_lag_is_none(halved: CommandLine) -> None:
    async with Admin(halved.address) as admin:
        lags = await admin.describe_group_lag("g")
    assert lags == {
        LED: PartitionLag(1, 2, 2, 1, 0, is_exact=True),
        OFFLINE: PartitionLag(1, None, None, None, None, is_exact=False),
    }


async def test_a_member_without_commits_is_described(halved: CommandLine) -> None:
    async with Consumer(halved.address, group_id="m", enable_auto_commit=False) as consumer:
        await consumer.subscribe(TOPIC)
        while not consumer.assignment():
            await consumer.poll(100)
        text = await asyncio.to_thread(halved.text, "group", "describe", "m", "--json")
    ends = {row["partition"]: row["log_end_offset"] for row in json.loads(text)}
    assert ends == {0: 2, 1: None}


def test_kafkas_tool_shows_both_partitions(
    halved: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ("--bootstrap-server", halved.address)
    words = ["kafka-consumer-groups.sh", *server, "--describe", "--group", "g"]
    assert run_tool(words) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert [line[2:6] for line in lines[1:]] == [["0", "1", "2", "1"], ["1", "1", "-", "-"]]


def test_the_timeout_of_kafkas_tool_bounds_each_call(
    nowhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["kafka-consumer-groups.sh", "--bootstrap-server", nowhere, "--timeout", "1000"]
    assert run_tool([*words, "--describe", "--group", "g"]) == 0
    said = capsys.readouterr()
    assert "Timed out waiting for a node assignment. Call: describeGroups" in said.out


def test_the_timeout_of_kafkas_tool_bounds_a_reset(
    halved: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ("--bootstrap-server", halved.address, "--timeout=3000")
    reset = ("--reset-offsets", "--group", "g", "--topic", f"{TOPIC}:0", "--to-latest", "--dry-run")
    assert run_tool(["kafka-consumer-groups.sh", *server, *reset]) == 0
    assert capsys.readouterr().out.split()[-4:] == ["0", "1", "2", "1"]
