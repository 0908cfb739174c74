"""`oncelog dev`: the printed commands work unchanged, and no file is left after its end."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from oncelog_client import Admin, Consumer, TopicPartition
from oncelog_server.dev import CLIENTS, dev, parse_topic
from tests.harness.kafka.tools import tool_command
from tests.harness.waiting import wait_until

START_TIMEOUT_S = 60.0
CLIENT_TIMEOUT_S = 60
WORDS = {"oncelog", "confluent-kafka", "kafka-python", "aiokafka", "Java"}


class Dev:
    """A running `oncelog dev` with a temporary folder of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.output = folder / "stdout"
        command = [sys.executable, "-m", "oncelog_client.cli", "dev", "--port", "0", *arguments]
        environment = os.environ | {"TMPDIR": str(self.temporary), "KAFKA_LISTENERS": "nonsense"}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=environment
            )

    def printed(self) -> str:
        """Wait until the broker has printed its commands. Return the output."""

        def is_ready() -> bool:
            assert self.process.poll() is None, self.output.read_text()
            return "# Java" in self.output.read_text()

        wait_until(is_ready, "the broker says how to connect", START_TIMEOUT_S)
        return self.output.read_text()

    @property
    def address(self) -> str:
        found = re.search(r"listening on (\S+),", self.printed())
        assert found is not None
        return found[1]

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Dev]:
    broker = Dev(tmp_path)
    yield broker
    broker.process.kill()
    broker.process.wait()


@pytest.fixture
def path(tmp_path: Path, kafka_jars: str) -> str:
    """Return a PATH as on a user's machine, with Python and its clients, oncelog and Kafka's
    tools."""
    folder = tmp_path / "bin"
    folder.mkdir()
    commands = {
        "python": [sys.executable],
        "oncelog": [sys.executable, "-m", "oncelog_client.cli"],
        "kafka-console-producer.sh": tool_command("console-producer"),
    }
    for name, command in commands.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        script.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def blocks(printed: str) -> dict[str, str]:
    """Return the printed lines by their heading."""
    _, *parts = re.split(r"^# (.*)$", printed, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


async def read(address: str, topic: str) -> list[bytes | None]:
    async with Consumer(address) as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        found: list[bytes | None] = []
        async with asyncio.timeout(30):
            while len(found) < len(CLIENTS):
                found += [record.value for record in await consumer.poll(1000)]
        return found


def test_the_lines_of_every_client_work_as_they_are_printed(
    running: Dev, path: str, tmp_path: Path
) -> None:
    printed = blocks(running.printed())
    assert {title.split()[0] for title in printed} == WORDS
    work = tmp_path / "work"
    work.mkdir()
    for title, lines in printed.items():
        done = subprocess.run(
            ["bash", "-e"],
            input=lines,
            text=True,
            capture_output=True,
            cwd=work,
            env=os.environ | {"PATH": path},
            timeout=CLIENT_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (title, done.stdout, done.stderr)
    values = asyncio.run(read(running.address, "demo"))
    assert sorted(value or b"" for value in values) == sorted(
        b"from " + word.encode() for word in WORDS
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_dev_stops_at_a_signal_as_serve_does_and_leaves_no_file(running: Dev, number: int) -> None:
    running.printed()
    (folder,) = running.temporary.iterdir()
    assert folder.name.startswith("oncelog-dev-")
    assert running.stop(number) == 0
    assert list(running.temporary.iterdir()) == []


def test_topics_are_created_with_their_partitions(tmp_path: Path) -> None:
    broker = Dev(tmp_path, "--topic", "orders:3", "--topic", "payments")

    async def described() -> dict[str, int]:
        async with Admin(broker.address) as admin:
            found = await admin.describe_topics(["orders", "payments"])
        return {name: len(topic.partitions) for name, topic in found.items()}

    try:
        assert asyncio.run(described()) == {"orders": 3, "payments": 1}
        assert broker.address.startswith("127.0.0.1:")
    finally:
        broker.stop(signal.SIGTERM)


def test_dev_does_not_start_with_an_invalid_topic(tmp_path: Path) -> None:
    broker = Dev(tmp_path, "--topic", "no spaces")
    assert broker.process.wait(60) == 1
    assert "--topic no spaces: INVALID_TOPIC" in broker.output.read_text()
    assert list(broker.temporary.iterdir()) == []


@pytest.mark.parametrize("text", ["t:", "t:0", "t:-1", "t:x", "t:1:2", "t:99999999"])
def test_an_invalid_number_of_partitions_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError):
        parse_topic(text)


def test_the_help_is_one_screen() -> None:
    with click.Context(dev, info_name="oncelog dev") as context:
        assert len(dev.get_help(context).splitlines()) <= 24
