"""A preloaded program is a fork of a process that has imported the sources. It behaves as one that
`python -m` starts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.testing.broker import PROGRAM
from oncelog.testing.wire import Wire
from tests.harness.broker import Oncelog
from tests.harness.driving import create, values
from tests.harness.preloaded import (
    TOOLS,
    PreloadedProcess,
    can_be_forked,
    run_preloaded_tool,
)


@pytest.mark.parametrize("preloaded", [True, False])
def test_a_broker_ends_with_its_exit_code(tmp_path: Path, preloaded: bool) -> None:
    with Oncelog(tmp_path, preloaded=preloaded) as broker:
        broker.connect().close()
        assert broker.stop() == 0
    assert "oncelog" in broker.output.read_text()


@pytest.mark.parametrize("preloaded", [True, False])
def test_a_broker_is_killed_and_started_again(tmp_path: Path, preloaded: bool) -> None:
    with Oncelog(tmp_path, preloaded=preloaded) as broker:
        process = broker._running()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        broker.kill()
        assert process.returncode == -signal.SIGKILL
        broker.start()
        assert broker.pid != process.pid


@pytest.mark.parametrize("preloaded", [True, False])
def test_a_broker_gets_its_environment_arguments_and_outputs(
    tmp_path: Path, preloaded: bool
) -> None:
    variables = {"ONCELOG_FAIL_AT": "before-data", "ONCELOG_LOG_SEGMENT_BYTES": "1048576"}
    broker = Oncelog(tmp_path, environment=variables, preloaded=preloaded)
    assert broker.spawn().wait(60) == 2
    assert "--allow-faults" in broker.log.read_text()
    assert not broker.output.read_text()


def test_a_broker_with_other_sources_is_started_without_a_fork(tmp_path: Path) -> None:
    with Oncelog(tmp_path, environment={"PYTHONPATH": str(tmp_path)}, preloaded=True) as broker:
        assert isinstance(broker._running(), subprocess.Popen)


@pytest.mark.parametrize(
    ("command", "given", "expected"),
    [
        (PROGRAM, {}, True),
        (PROGRAM, {"ONCELOG_FAIL_AT": "before-data"}, True),
        (PROGRAM, {"PYTHONPATH": "/other/sources"}, False),
        (PROGRAM, {"LD_PRELOAD": "lib.so"}, False),
        ((sys.executable, "-m", "tests.torture.traced"), {}, False),
        (("/other/python", *PROGRAM[1:]), {}, False),
    ],
)
def test_another_program_or_interpreter_is_not_forked(
    command: tuple[str, ...], given: dict[str, str], expected: bool
) -> None:
    """A fork would silently run this process's sources instead."""
    assert can_be_forked([*command, "serve"], {**os.environ, **given}) is expected


# The tool reads standard input until its end.
WORDS = ("kafka-console-producer.sh", "--bootstrap-server", "BROKER", "--topic", "t")


@pytest.mark.parametrize(
    "words", [WORDS, (*WORDS, "--nosuch"), ("kafka-topics.sh", "--version"), ("nosuch.sh",)]
)
def test_a_tool_has_the_output_and_the_exit_code_of_a_new_interpreter(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    with Oncelog(tmp_path) as broker, Wire(broker.address) as wire:
        create(wire, "t")
        words = tuple(word.replace("BROKER", broker.address) for word in words)
        forked = run_preloaded_tool(words, "one\ntwo\n", 60)
        started = subprocess.run(
            [sys.executable, "-m", TOOLS, *words],
            input="one\ntwo\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (forked.returncode, forked.stdout, forked.stderr) == (
            started.returncode, started.stdout, started.stderr
        )  # fmt: skip
        expected = [b"one", b"two"] * 2 if words[-1] == "t" else []
        assert values(wire, "t") == expected


def test_a_fork_without_a_response_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The template has ended."""
    made: list[socket.socket] = []

    def ended(program: str) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.close()
        made.append(ours)
        return ours

    monkeypatch.setattr("tests.harness.preloaded._template", ended)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="Broken pipe") as failed:
        run_preloaded_tool(("kafka-topics.sh",), "", 0.5)
    made[0].close()
    left = set(os.listdir("/proc/self/fd")) - before
    assert not [name for name in left if is_socket(name)], "while the error is not yet forgotten"
    assert failed.value is not None


def is_socket(descriptor: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except FileNotFoundError:
        return False


def test_a_process_without_its_reporter_leaves_no_socket() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    process = PreloadedProcess(os.getpid(), ours)
    for _ in range(2):
        with pytest.raises(AssertionError, match="has ended"):
            process.poll()
    assert ours.fileno() == -1


def test_a_tool_that_does_not_end_is_killed(tmp_path: Path) -> None:
    with Oncelog(tmp_path) as broker, Wire(broker.address) as wire:
        create(wire, "t")
        words = ("kafka-console-consumer.sh", "--bootstrap-server", broker.address, "--topic", "t")
        with pytest.raises(subprocess.TimeoutExpired):
            run_preloaded_tool(words, "", 0.5)
