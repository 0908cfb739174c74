"""A broker of `oncelog.testing` ends when the process that started it ends, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.harness.driving import state
from tests.harness.waiting import wait_until

# Prints the processes of its broker, and waits.
PROGRAM = """
import subprocess, sys
from oncelog.testing import Broker
settings, action = eval(sys.argv[1]), sys.argv[2]
with Broker(settings, data=sys.argv[3]) as broker:
    children = subprocess.run(["pgrep", "-P", str(broker.pid)], capture_output=True, text=True)
    print(broker.pid, *children.stdout.split(), flush=True)
    if action == "restarts":
        broker.kill()
        broker.restart()
        print(broker.pid, flush=True)
    sys.stdin.read()
"""


def start(settings: dict[str, object], action: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, repr(settings), action, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def has_ended(pid: int) -> bool:
    """Return True if the process has ended. Its parent may not have collected it."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return state(pid) == "Z"
    return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("action", ["starts", "restarts"])
def test_a_broker_ends_with_the_process_that_has_started_it(
    number: signal.Signals, action: str, tmp_path: Path
) -> None:
    with start({}, action, tmp_path) as program:
        assert program.stdout is not None
        for _ in ("starts", "restarts")[: 1 + (action == "restarts")]:
            (pid,) = map(int, program.stdout.readline().split())
        program.send_signal(number)
        program.wait()
    wait_until(partial(has_ended, pid), f"the end of process {pid}")
    assert "broker failed" not in (tmp_path / "stderr").read_text()


def test_all_brokers_of_one_machine_end_with_the_process_that_has_started_them(
    tmp_path: Path,
) -> None:
    with start({"oncelog.brokers": 2}, "starts", tmp_path) as program:
        assert program.stdout is not None
        pids = [int(pid) for pid in program.stdout.readline().split()]
        program.kill()
        program.wait()
    assert len(pids) == 3
    for pid in pids:
        wait_until(partial(has_ended, pid), f"the end of process {pid}")
