"""A process may end while a test reads about it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.harness.processes import ENDED, children, command, is_alive, thread_names
from tests.harness.waiting import wait_until

SLEEPING = ["sleep", "60"]


def test_a_process_that_runs_has_its_words_and_its_children() -> None:
    with subprocess.Popen(SLEEPING) as process:
        try:
            wait_until(lambda: command(process.pid) == SLEEPING, "the command")
            assert process.pid in children(os.getpid())
            assert children(process.pid) == []
            assert thread_names(process.pid) == ["sleep"]
            assert is_alive(process.pid)
        finally:
            process.kill()


def test_an_ended_process_has_nothing_before_and_after_its_parent_has_waited() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process.pid in children(os.getpid())
    for _ in range(2):
        assert command(process.pid) == []
        assert children(process.pid) == []
        assert not is_alive(process.pid)
        process.wait()
    assert process.pid not in children(os.getpid())


def test_a_file_of_an_ended_process_that_is_open_raises_an_error_of_the_table() -> None:
    process = subprocess.Popen(SLEEPING)
    with open(f"/proc/{process.pid}/stat") as opened:
        process.kill()
        process.wait()
        with pytest.raises(ENDED):
            opened.read()
