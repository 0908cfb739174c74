"""Every command that prints tables, on terminals of four widths, with identifiers of 60 characters.
No identifier is split over two lines, so a user can copy it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from oncelog.testing.wire import Wire
from tests.client.cli.conftest import CommandLine
from tests.harness.broker import Oncelog
from tests.harness.waiting import wait_until
from tests.harness.writing import batch, new_identity, produce

TOPIC = "topic-" + "t" * 48 + "-final"
GROUP = "group-" + "g" * 48 + "-final"
ID = TOPIC
SECONDS = 60.0
# The start of the lines that PROGRAM prints before and after the output of each command.
MARK = "----- "

PROGRAM = f"""
import json, sys
from oncelog_client.cli import oncelog
for arguments in json.loads(sys.argv[1]):
    print({MARK!r} + json.dumps(arguments), flush=True)
    try:
        oncelog(arguments, prog_name="oncelog")
    except SystemExit as left:
        print({MARK!r} + "exit " + str(left.code or 0), flush=True)
"""

TABLES: dict[str, tuple[str, ...]] = {
    "topics --list": (TOPIC,),
    f"topics --describe --topic {TOPIC}": (TOPIC, "Partition", "Leader", "Replicas"),
    "topic list": (TOPIC,),
    f"topic describe {TOPIC}": (TOPIC,),
    f"topic offsets {TOPIC}": (TOPIC,),
    f"config --describe --topic {TOPIC} --all": (TOPIC, "min.insync.replicas"),
    "groups --list": (GROUP, "Empty"),
    f"groups --describe --group {GROUP}": (GROUP, TOPIC, "Current-offset", "Held-back"),
    f"groups --describe --state --group {GROUP}": (GROUP, "Empty"),
    f"groups --reset-offsets --group {GROUP} --all-topics --to-earliest": (GROUP, TOPIC),
    "group list": (GROUP,),
    f"group describe {GROUP}": (GROUP, TOPIC),
    "transactions list": (ID, "Ongoing"),
    f"transactions describe {ID}": (ID, "Ongoing", "the-client", "/127.0.0.1"),
    "transactions blocking": (
        ID,
        "Ongoing",
        "the-client",
        "/127.0.0.1",
        TOPIC,
        GROUP,
        f"oncelog txn abort {ID}",
    ),
    f"transactions blocking {TOPIC}": (ID, GROUP),
    f"transactions describe-producers --topic {TOPIC} --partition 0": ("Open", "Producer", "epoch"),
    "transactions prepared": ("no prepared transactions",),
    f"transactions find-hanging --topic {TOPIC}": ("no hanging transactions",),
    "txn list": (ID,),
    "cluster info": (),
    "cluster brokers": ("alive",),
    "cluster health": (ID, GROUP, "open transactions"),
}


@dataclass(frozen=True)
class Screen:
    """The output of the commands at one width: command -> (lines, exit code)."""

    width: int
    commands: dict[str, tuple[list[str], int]]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """A broker with an open transaction and a group that waits for the end of this transaction."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with Oncelog(tmp_path_factory.mktemp("terminal"), settings) as broker:
        line = CommandLine(broker.address)
        line.create(TOPIC, partitions=2)
        with Wire(broker.address, "the-client") as wire:
            producer = new_identity(wire, ID, timeout_ms=600_000)
            for partition in (0, 1):
                wait_until(
                    lambda partition=partition: (  # type: ignore[misc]  # mypy infers no lambda
                        produce(
                            wire, TOPIC, batch(producer, 0), producer=producer, partition=partition
                        ).error_code
                        == 0
                    ),
                    "a record of the open transaction",
                )
            flags = ("--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-earliest")
            line.text("groups", *flags, "--execute")
            yield line


def on_terminal(address: str, width: int) -> Screen:
    """Run all commands in one process, with a terminal as its standard output and error."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    calls = [command.split() for command in TABLES]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps(calls)],
        env={**environment, "ONCELOG_BOOTSTRAP_SERVER": address},
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    timer = threading.Timer(SECONDS, process.kill)
    timer.start()
    written = b""
    try:
        while True:
            select.select([master], [], [])
            try:
                chunk = os.read(master, 1 << 16)
            except OSError:  # on Linux, the last writer has closed the terminal
                break
            if not chunk:
                break
            written += chunk
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        os.close(master)
    text = written.decode().replace("\r\n", "\n")
    found = re.findall(rf"^{MARK}(\[[^\n]*\])\n(.*?)^{MARK}exit (\d+)$", text, re.M | re.S)
    return Screen(
        width,
        {" ".join(json.loads(call)): (body.splitlines(), int(code)) for call, body, code in found},
    )


@pytest.fixture(scope="module", params=[80, 120, 160, 200])
def screen(request: pytest.FixtureRequest, here: CommandLine) -> Screen:
    return on_terminal(here.address, request.param)


@pytest.mark.parametrize("command", TABLES)
def test_identifiers_and_headings_are_not_split(screen: Screen, command: str) -> None:
    lines, code = screen.commands[command]
    assert code == 0, lines
    text = "\n".join(lines)
    for expected in TABLES[command]:
        assert expected in text
    for line in lines:
        assert line.isprintable(), line
        # The terminal would split a longer line.
        assert len(line) <= screen.width, line


def test_a_transaction_is_one_entry_with_the_command_that_ends_it_safely(screen: Screen) -> None:
    lines, _ = screen.commands["transactions blocking"]
    # If the id and its state do not fit on one line, the state is below the id.
    heading = "   ".join([lines[0], lines[1].strip()] if lines[0] == ID else [lines[0]])
    assert re.fullmatch(rf"{ID}   Ongoing .+, aborted by its timeout in 9 m \d+ s", heading)
    labels = ("opened by", "holds back", "waiting", "end it")
    places = [next(n for n, line in enumerate(lines) if line[2:12].strip() == x) for x in labels]
    assert places == sorted(places)
    text = " ".join(line.strip() for line in lines)
    assert f"{TOPIC}: 2 partitions (0-1), 2 records" in text
    assert f"{GROUP} (2 partitions, Empty)" in text
    assert any(line.strip().endswith(f"oncelog txn abort {ID}") for line in lines), "to be copied"


def test_a_heading_takes_two_lines_at_most(screen: Screen) -> None:
    lines, _ = screen.commands[f"transactions describe-producers --topic {TOPIC} --partition 0"]
    rule = next(number for number, line in enumerate(lines) if line.startswith("─"))
    assert rule <= 2, lines
