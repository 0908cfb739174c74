"""Debian's Prometheus and its tool promtool, as reader of a broker's metrics."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any

from oncelog.testing.ports import reserve_port
from tests.harness.debian import unpacked
from tests.harness.http_response import read_response

START_TIMEOUT_S = 60.0


def program(name: str) -> str:
    """Return the path of `prometheus` or `promtool`. Raises DebianUnavailable."""
    return shutil.which(name) or str(unpacked("prometheus") / "usr" / "bin" / name)


def promtool(*arguments: str, cwd: Path) -> str:
    """Run promtool to its end, and return its output. An exit code other than 0 fails."""
    outcome = subprocess.run(
        [program("promtool"), *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout
    return outcome.stdout


class Prometheus:
    """A process that scrapes `target` (HOST:PORT) every second, in the job `oncelog`."""

    def __init__(self, directory: Path, target: str) -> None:
        self._directory = directory
        self._target = target
        self._port = reserve_port(self)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Prometheus:
        self._directory.mkdir(parents=True, exist_ok=True)
        config = self._directory / "prometheus.yml"
        config.write_text(
            "scrape_configs:\n  - job_name: oncelog\n    scrape_interval: 1s\n"
            f"    static_configs:\n      - targets: ['{self._target}']\n"
        )
        with (self._directory / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self._directory / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            assert time.monotonic() < deadline, "Prometheus did not start"
            assert self._process.poll() is None, "Prometheus ended"
            time.sleep(0.05)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _is_ready(self) -> bool:
        try:
            return self._get("/-/ready") is not None
        except OSError:
            return False

    def _get(self, path: str) -> bytes:
        url = f"http://127.0.0.1:{self._port}{path}"
        return read_response(url, START_TIMEOUT_S)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an expression. Raises HTTPError for an invalid expression."""
        path = f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        found: list[dict[str, Any]] = json.loads(self._get(path))["data"]["result"]
        return found
