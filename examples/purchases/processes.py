"""The processes of the demo, one broker and some workers. The demo can kill them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from oncelog.testing.ports import reserve_port


class Broker:
    """`oncelog serve` on a folder, with the same port after every start."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._log = (data.parent / "broker.log").open("ab")
        self._process: subprocess.Popen[str] | None = None
        # No other process can take the port before the first start, or during a restart.
        self.port = reserve_port(self)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the broker and wait until it responds. Raises RuntimeError if it does not
        respond."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "oncelog_server", "serve", "--data", str(self._data)),
                *("--set", f"listeners=PLAINTEXT://127.0.0.1:{self.port}"),
            ],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        if "listening on" not in self._process.stdout.readline():
            raise RuntimeError(f"the broker did not start, see {self._log.name}")

    def kill(self) -> None:
        """Send SIGKILL to the broker, so that it cannot clean up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


class Worker:
    """One worker process. A thread counts the lines that the process prints."""

    def __init__(self, module: str, servers: str, number: int) -> None:
        self._command = [sys.executable, "-m", module, servers, str(number)]
        self.counts: Counter[str] = Counter()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._reader = threading.Thread(target=self._count, args=(self._process,), daemon=True)
        self._reader.start()

    def _count(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            word, _, _ = line.partition(" ")
            self.counts[word.strip()] += 1

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._ended()

    def suspend(self) -> None:
        """Send SIGSTOP to the worker, as if its computer paused for a long time."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is None or self._reader is None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._ended()

    def _ended(self) -> None:
        assert self._process is not None
        assert self._reader is not None
        self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
