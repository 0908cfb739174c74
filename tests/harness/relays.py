"""A network that tests can cut without root rights: a process that carries TCP connections. It
listens on a port for each relay."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

END_TIMEOUT_S = 30.0


class Relays:
    """A context manager. Hosts have names: `broker-2`, `etcd-0`."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.relay_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait(END_TIMEOUT_S)

    def open(self, target: str, address: str, source: str = "") -> str:
        """Return the address of a relay to a host. `address` is where the host listens. Without
        `source`, all brokers may use the relay, and each request names its broker."""
        port = self._call(source=source, target=target, address=address)["port"]
        return f"127.0.0.1:{port}"

    def cut(self, pairs: Iterable[tuple[str, str]], *, refusing: bool = False) -> None:
        """Replace all cuts. A pair is (from, to): what the first host sends to the second one does
        not arrive until the cut ends. `refusing`: connections are reset instead."""
        self._call(cut=sorted(pairs), refusing=refusing)

    def heal(self) -> None:
        """End all cuts."""
        self.cut(())

    def _call(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        response: dict[str, Any] = json.loads(self._process.stdout.readline())
        return response
