"""The program `oncelog` in its own process, and Ctrl-C to that process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tests.harness.watch import seconds_to_end

MOST_S = 1.0


@contextmanager
def command(
    address: str,
    *arguments: str,
    stdin: int | IO[bytes] = subprocess.PIPE,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in its own process, because a signal goes to a process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "oncelog_client.cli", *arguments],
        env={**os.environ, "ONCELOG_BOOTSTRAP_SERVER": address, "PYTHONUNBUFFERED": "1"},
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupted(process: subprocess.Popen[bytes], most_s: float = MOST_S) -> str:
    """Send Ctrl-C. The command must end within `most_s`. Return its standard error."""
    took_s = seconds_to_end(process, signal.SIGINT)
    code = process.wait(timeout=30)
    said = process.stderr.read().decode() if process.stderr is not None else ""
    assert code == 130, said
    assert took_s < most_s, f"{took_s} s: {said}"
    assert "Traceback" not in said
    assert "Fatal" not in said
    return said
