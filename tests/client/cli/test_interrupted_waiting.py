"""Ctrl-C while a command waits for the reader of its output, a member of its group, or a
connection. The wait may never end. Some tests send two signals."""

from __future__ import annotations

import array
import fcntl
import os
import re
import signal
import socket
import subprocess
import termios
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.client.cli.conftest import CommandLine
from tests.client.cli.signalled import command, interrupted
from tests.harness.broker import Oncelog
from tests.harness.waiting import wait_until

SMALL = 4096  # the smallest pipe
LINES = [f"{number:0100}" for number in range(200)]


@contextmanager
def unread() -> Iterator[tuple[int, int]]:
    """Return a pipe that no process reads: (read end, write end)."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SMALL)
    try:
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)


def held(reading: int) -> int:
    size = array.array("i", [0])
    fcntl.ioctl(reading, termios.FIONREAD, size)
    return size[0]


def fill(reading: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has filled the pipe, which then has no space for a line."""

    def is_full() -> bool:
        assert process.poll() is None
        return held(reading) > SMALL - len(LINES[0])

    wait_until(is_full, "a pipe that is full")


def sleeps(process: subprocess.Popen[bytes]) -> bool:
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "S"


def pending(process: subprocess.Popen[bytes]) -> bool:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return any(int(mask, 16) for mask in re.findall(r"^(?:SigPnd|ShdPnd):\s+(\w+)", status, re.M))


@pytest.mark.parametrize("errors", ["apart", "in the same pipe"])
def test_consume_into_a_pipe_that_is_not_read(here: CommandLine, name: str, errors: str) -> None:
    here.create(name)
    here.text("produce", name, lines="\n".join(LINES) + "\n")
    flags = ("--from-beginning", "--group", name)
    with unread() as (reading, writing):
        stderr = subprocess.PIPE if errors == "apart" else writing
        with command(
            here.address, "consume", name, *flags, stdout=writing, stderr=stderr
        ) as process:
            fill(reading, process)
            said = interrupted(process)
        printed = os.read(reading, SMALL).count(b"\n")
    assert 0 < printed < len(LINES)
    if errors == "apart":
        assert said == f"{printed} records\n"
    (row,) = here.json("groups", "--describe", "--group", name)
    assert row["current_offset"] == printed, (
        "the committed offset is not the number of printed records"
    )


def test_consume_continues_when_the_pipe_is_read(here: CommandLine, name: str) -> None:
    here.create(name)
    here.text("produce", name, lines="\n".join(LINES) + "\n")
    with (
        unread() as (reading, writing),
        command(here.address, "consume", name, "-e", stdout=writing) as process,
    ):
        fill(reading, process)
        size = sum(len(line) + 1 for line in LINES)
        text = b""
        while len(text) < size:
            text += os.read(reading, SMALL)
        assert process.wait(timeout=30) == 0
        assert text.decode().splitlines() == LINES
        assert os.get_blocking(writing), "the command has made a shared pipe non-blocking"


def test_consume_into_a_closed_pipe(here: CommandLine, name: str) -> None:
    here.create(name)
    here.text("produce", name, lines="a\n")
    reading, writing = os.pipe()
    with command(here.address, "consume", name, "-o", "end", stdout=writing) as process:
        os.close(reading)
        os.close(writing)
        here.settled(lambda _: sleeps(process), "topics", "--list")
        said = interrupted(process)
    assert said in {"0 records\n", "interrupted\n"}


def test_produce_reports_into_a_pipe_that_is_not_read(here: CommandLine, name: str) -> None:
    here.create(name)
    with (
        unread() as (reading, writing),
        command(here.address, "produce", name, "-v", stdout=writing) as process,
    ):
        assert process.stdin is not None
        process.stdin.write("".join(f"{line}\n" for line in LINES).encode())
        process.stdin.close()
        process.stdin = None
        wait_until(lambda: held(reading) > SMALL - 200 and sleeps(process), "a pipe that is full")
        said = interrupted(process)
    written = re.search(rf"(\d+) records written to {name}.*; interrupted", said)
    assert written is not None, said
    assert int(written[1]) == len(here.text("consume", name, "-e").splitlines())


def test_a_result_into_a_pipe_that_is_not_read(here: CommandLine) -> None:
    arguments = ("config", "--describe", "--all", "--broker", "1")
    with (
        unread() as (reading, writing),
        command(here.address, *arguments, stdout=writing) as process,
    ):
        wait_until(lambda: held(reading) > SMALL - 200 and sleeps(process), "a pipe that is full")
        assert interrupted(process) == "interrupted\n"


@pytest.mark.parametrize("verb", ["produce", "consume", "topics"])
def test_an_interruption_ends_a_command_that_waits_for_a_connection(verb: str, name: str) -> None:
    """The queue of connections at the address is full, so the kernel drops SYNs, as a firewall
    does."""
    flags = ("--list",) if verb == "topics" else (name,)
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        before = syns(full.getsockname()[1])
        host, port = full.getsockname()
        arguments = (f"{host}:{port}", verb, *flags, "--give-up-after", "60")
        process = stack.enter_context(command(*arguments))
        wait_until(lambda: syns(port) > before, "a connect in flight")
        assert interrupted(process) == "interrupted\n"


def syns(port: int) -> int:
    """Return the number of connections to a port of 127.0.0.1 that wait for the response to their
    SYN."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(1 for row in rows if row[2] == f"0100007F:{port:04X}" and row[3] == "02")


def test_an_interruption_ends_consume_in_the_middle_of_a_rebalance(
    here: CommandLine, name: str
) -> None:
    here.create(name)
    here.text("produce", name, lines="a\nb\n")
    flags = ("consume", name, "--from-beginning", "--group", name)

    def members(count: int, state: str) -> None:
        here.settled(
            lambda rows: rows and (rows[0]["state"], rows[0]["members"]) == (state, count),
            *("groups", "--describe", "--state", "--group", name),
        )

    with command(here.address, *flags) as reader:
        assert reader.stdout is not None
        assert [reader.stdout.readline(), reader.stdout.readline()] == [b"a\n", b"b\n"]
        with command(here.address, *flags) as silent:
            members(2, "Stable")
            # The suspended member stays in the group and does not rejoin.
            silent.send_signal(signal.SIGSTOP)
            with command(here.address, *flags) as third:
                members(3, "PreparingRebalance")
                interrupted(reader)
                assert interrupted(third) == "0 records\n"
    (row,) = here.json("groups", "--describe", "--group", name)
    assert row["current_offset"] == 2


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_a_second_interruption_ends_the_command_at_once(
    tmp_path: Path, name: str, verb: str
) -> None:
    """The broker is suspended. After the first signal, the command waits for the broker."""
    flags = ("--group", name, "--from-beginning") if verb == "consume" else ()
    with Oncelog(tmp_path) as broker, ExitStack() as stack:
        here = CommandLine(broker.address)
        here.create(name)
        here.text("produce", name, lines="a\n")
        process = stack.enter_context(command(broker.address, verb, name, *flags))
        assert process.stdin is not None
        assert process.stdout is not None
        if verb == "consume":
            assert process.stdout.readline() == b"a\n"
        else:
            process.stdin.write(b"b\n")
            process.stdin.flush()
            wait_until(lambda: "b" in here.text("consume", name, "-e"), "the record")
        stack.callback(os.kill, broker.pid, signal.SIGCONT)
        os.kill(broker.pid, signal.SIGSTOP)
        if verb == "produce":
            process.stdin.write(b"c\n")
            process.stdin.flush()
            wait_until(lambda: sleeps(process), "a record in flight")
        process.send_signal(signal.SIGINT)
        # A second signal while the first is pending would be lost.
        wait_until(lambda: not pending(process) and sleeps(process), "a handled signal")
        interrupted(process, most_s=0.5)
