"""Ctrl-C in `oncelog produce` and `consume`. The command ends within a second, loses no record,
aborts its transaction, and ends the interpreter cleanly. ONCELOG_INTERRUPTS sets the number of
runs."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.client.cli.conftest import CommandLine
from tests.client.cli.signalled import command, interrupted
from tests.harness.broker import Oncelog
from tests.harness.waiting import wait_until

TIMES = int(os.environ.get("ONCELOG_INTERRUPTS", "2"))


def written(here: CommandLine, topic: str) -> list[str]:
    flags = ("--from-beginning", "--timeout-ms", "500")
    return here.text("consume", "--topic", topic, *flags).splitlines()


@pytest.mark.parametrize("number", range(TIMES))
@pytest.mark.parametrize("where", ["pipe", "terminal"])
def test_produce_writes_what_it_has_read(
    here: CommandLine, name: str, where: str, number: int
) -> None:
    here.create(name)
    master, slave = pty.openpty() if where == "terminal" else os.pipe()[::-1]
    try:
        with command(here.address, "produce", "--topic", name, stdin=slave) as process:
            os.write(master, b"one\ntwo\n")
            wait_until(lambda: written(here, name) == ["one", "two"], "the records")
            os.write(master, b"three\n" + b"not a whole line" * (where == "pipe"))
            wait_until(lambda: "three" in written(here, name), "the last record")
            said = interrupted(process)
    finally:
        os.close(master)
        os.close(slave)
    assert f"3 records written to {name}; interrupted" in said
    assert written(here, name) == ["one", "two", "three"]


@pytest.mark.parametrize("verb", ["produce", "consume", "topics"])
def test_a_command_is_interrupted_while_it_connects(name: str, verb: str) -> None:
    flags = ("--list",) if verb == "topics" else ("--topic", name)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        with command(f"{host}:{port}", verb, *flags, "--give-up-after", "60") as process:
            connection, _ = silent.accept()
            with connection:
                assert interrupted(process).strip() == "interrupted"


@pytest.mark.parametrize("number", range(TIMES))
def test_an_open_transaction_is_aborted(here: CommandLine, name: str, number: int) -> None:
    here.create(name)
    transactional = ("--transactional-id", name, "--transaction-size", "2")
    with command(here.address, "produce", "--topic", name, *transactional) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\nthree\n")
        process.stdin.flush()
        wait_until(lambda: "three" in written(here, name), "the record of the open transaction")
        said = interrupted(process)
    assert f"2 records written to {name} in 1 transaction" in said
    assert "the open transaction is aborted" in said
    flags = ("--from-beginning", "--timeout-ms", "500", "--isolation-level", "read_committed")
    assert here.text("consume", "--topic", name, *flags).splitlines() == ["one", "two"]
    (row,) = here.json("transactions", "describe", name)
    assert row["transaction_state"] in {"PrepareAbort", "CompleteAbort", "Empty"}


@pytest.mark.parametrize("number", range(TIMES))
@pytest.mark.parametrize("group", [False, True], ids=["alone", "in a group"])
def test_consume_commits_what_it_has_printed(
    here: CommandLine, name: str, number: int, group: bool
) -> None:
    here.create(name)
    here.text("produce", "--topic", name, lines="a\nb\n")
    flags = ("--group", name) if group else ()
    with command(here.address, "consume", "--topic", name, "--from-beginning", *flags) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"a\n"
        assert process.stdout.readline() == b"b\n"
        said = interrupted(process)
    assert said.splitlines() == ["2 records"]
    if group:
        (row,) = here.json("groups", "--describe", "--group", name)
        assert (row["current_offset"], row["consumer_id"]) == (2, None)


@pytest.mark.parametrize("verb", ["produce", "consume", "transaction"])
def test_an_interruption_does_not_wait_for_a_broker_that_is_gone(
    tmp_path: Path, name: str, verb: str
) -> None:
    with Oncelog(tmp_path) as broker:
        here = CommandLine(broker.address)
        here.create(name)
        here.text("produce", "--topic", name, lines="a\n")
        calls = {
            "produce": ("produce", "--topic", name),
            "consume": ("consume", "--topic", name, "--from-beginning", "--group", name),
            "transaction": ("produce", "--topic", name, "--transactional-id", name),
        }
        with command(broker.address, *calls[verb], "--give-up-after", "60") as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            if verb == "consume":
                assert process.stdout.readline() == b"a\n"
            else:
                process.stdin.write(b"b\n")
                process.stdin.flush()
                wait_until(lambda: "b" in written(here, name), "the record")
            broker.kill()
            process.stdin.write(b"c\n")
            process.stdin.flush()
            while b"trying again" not in process.stderr.readline():
                assert process.poll() is None
            said = interrupted(process)
    if verb == "produce":
        assert "whether 1 more record arrived is unknown" in said


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_a_command_names_a_dead_broker_and_gives_up(tmp_path: Path, name: str, verb: str) -> None:
    """The messages name the broker and the cause, and the command ends after --give-up-after."""
    with Oncelog(tmp_path) as broker:
        here = CommandLine(broker.address)
        here.create(name)
        here.text("produce", "--topic", name, lines="a\n")
        flags = ("--from-beginning",) if verb == "consume" else ()
        arguments = (verb, "--topic", name, *flags, "--give-up-after", "1")
        with command(broker.address, *arguments) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            if verb == "consume":
                assert process.stdout.readline() == b"a\n"
            else:
                process.stdin.write(b"b\n")
                process.stdin.flush()
                wait_until(lambda: "b" in written(here, name), "the record")
            broker.kill()
            if verb == "produce":
                process.stdin.write(b"c\n")
                process.stdin.flush()
            assert process.wait(timeout=30) == 1
            said = process.stderr.read().decode()
    assert f":{broker.port}: connection refused; trying again for 1 s (--give-up-after)" in said
    error = said.splitlines()[-1]
    assert error.startswith("Error: ")
    assert f":{broker.port}: connection refused; gave up after 1 s" in error
    assert "Traceback" not in said
    if verb == "produce":
        assert "1 record written" in error
        assert "whether 1 more record arrived is unknown" in error


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_a_broker_that_comes_back_is_reported(tmp_path: Path, name: str, verb: str) -> None:
    with Oncelog(tmp_path) as broker:
        here = CommandLine(broker.address)
        here.create(name)
        here.text("produce", "--topic", name, lines="a\n")
        flags = ("--from-beginning",) if verb == "consume" else ()
        arguments = (verb, "--topic", name, *flags)
        with command(broker.address, *arguments) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            if verb == "consume":
                assert process.stdout.readline() == b"a\n"
            else:
                process.stdin.write(b"b\n")
                process.stdin.flush()
                wait_until(lambda: "b" in written(here, name), "the record")
            broker.kill()
            if verb == "produce":
                process.stdin.write(b"c\n")
                process.stdin.flush()
            while b"trying again (--give-up-after)" not in process.stderr.readline():
                assert process.poll() is None, "without the option there is no end"
            broker.start()
            while b"connected again" not in process.stderr.readline():
                assert process.poll() is None
            if verb == "consume":
                here.text("produce", "--topic", name, lines="d\n")
                assert process.stdout.readline() == b"d\n"
            else:
                wait_until(lambda: "c" in written(here, name), "the record after the outage")
            interrupted(process)


# The program prints "up" when it begins to import the command line.
STARTING = """
import sys
from oncelog_client.program import main

class Up:
    def find_spec(self, name, *_):
        if name == "oncelog_client.cli":
            sys.meta_path.remove(self)
            print("up", flush=True)

sys.meta_path.insert(0, Up())
main()
"""


@pytest.mark.parametrize("after_ms", range(0, 100 * TIMES // 2, 20))
def test_an_interruption_during_the_imports_causes_no_traceback(name: str, after_ms: int) -> None:
    """The signal comes `after_ms` after the first line of output."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                STARTING,
                "consume",
                name,
                "--bootstrap-server",
                f"{host}:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            deadline = time.monotonic() + after_ms / 1000
            while time.monotonic() < deadline:
                assert process.poll() is None
            assert interrupted(process).strip() == "interrupted"
        finally:
            process.kill()
            process.communicate()
