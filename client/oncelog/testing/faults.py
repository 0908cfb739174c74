"""Faults of a running broker: failed requests, held requests, kills at a fail point, a slow or full
disk.

The broker must have been started with `--allow-faults`, as `Broker` starts it. The faults go over a
Unix socket in the data directory.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

# The broker needs a moment for its response only if it waits for a request.
RESPONSE_TIMEOUT_S: Final = 10.0
ARRIVAL_TIMEOUT_S: Final = 30.0
_EVERY_PATH: Final = "."


class FaultRefused(Exception):
    """The broker refused the fault. The message names the invalid argument."""


class Faults:
    """The faults of one broker.

    `fail`, `hold` and `kill_at` take effect at once. As context managers they end with the block;
    otherwise they end when they are used up, or with `clear()`.
    """

    def __init__(self, data: Path) -> None:
        self._data = data

    def fail(
        self,
        api: str,
        error: str,
        *,
        times: int | None = 1,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Let the next `times` requests of this API (`EndTxn`) get an error code
        (`COORDINATOR_NOT_AVAILABLE`), without any other effect.

        `times=None`: all requests until the fault ends. `topic` and `client_id` limit the fault to
        requests with this topic or of this client. Raises FaultRefused for an unknown name.
        """
        response = self.ask(
            "fail", api=api, error=error, times=times, topic=topic, client_id=client_id
        )
        return Fault(self, response["id"])

    def hold(
        self,
        api: str,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        response: bool = False,
    ) -> Held:
        """Hold the next request of this API before it takes effect, until `release`.

        With `response=True`, the request takes effect at once, and only its response is held. Later
        requests of the same connection wait too. Raises FaultRefused for an unknown name.
        """
        arguments = {"api": api, "topic": topic, "client_id": client_id}
        return Held(self, self.ask("hold", **arguments, holds_response=response)["id"])

    def kill_at(self, point: str) -> Kill:
        """Let the broker kill itself (SIGKILL) when it reaches a fail point: `after-prepare`, or
        `after-data:3` for the third time. Raises FaultRefused for an unknown point, with the list
        of all points."""
        self.ask("kill_at", point=point)
        return Kill(self)

    @contextmanager
    def delay_fsync(self, ms: int) -> Iterator[None]:
        """Let each fsync take `ms` milliseconds longer, within the block."""
        self.ask("delay_fsync", ms=ms)
        try:
            yield
        finally:
            self._end("delay_fsync", ms=0)

    @contextmanager
    def disk_full(self, *patterns: str) -> Iterator[None]:
        """Refuse writes as on a full disk, within the block. Each pattern is a regular expression
        for paths below the data directory; without one, all writes are refused."""
        self.ask("fill_disk", patterns=patterns or [_EVERY_PATH])
        try:
            yield
        finally:
            self._end("fill_disk", patterns=[])

    def pending(self) -> int:
        """Return the number of faults of requests that are not used up."""
        return int(self.ask("pending")["rules"])

    def clear(self) -> None:
        """End all faults. Held requests continue. The clock keeps its time."""
        self.ask("clear")

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a command to the broker, and return its response. Raises FaultRefused. Raises
        OSError if the broker does not run or was not started with `--allow-faults`."""
        from oncelog_server.faults.socket_path import socket_path

        timeout_s = RESPONSE_TIMEOUT_S + arguments.get("timeout_ms", 0) / 1000
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(timeout_s)
            with socket_path(self._data) as path:
                control.connect(path)
            control.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
            with control.makefile("rb") as responses:
                line = responses.readline()
        if not line:
            raise ConnectionResetError(f"the broker ended during the command {command}")
        response: dict[str, Any] = json.loads(line)
        if "error" in response:
            raise FaultRefused(response["error"])
        return response

    def _end(self, command: str, **arguments: Any) -> None:
        """Send a command that ends a fault. A broker that does not run has no faults."""
        with suppress(OSError):
            self.ask(command, **arguments)


class Fault:
    """A fault of requests."""

    def __init__(self, faults: Faults, number: int) -> None:
        self._faults = faults
        self._number = number

    def end(self) -> None:
        """End the fault. Nothing happens if it is over."""
        self._faults._end("end", id=self._number)

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()


class Held(Fault):
    """A request, or its response, that waits for `release`."""

    def wait(self, timeout_s: float = ARRIVAL_TIMEOUT_S) -> None:
        """Return when the request has arrived. Raises TimeoutError."""
        response = self._faults.ask("wait", id=self._number, timeout_ms=round(timeout_s * 1000))
        if not response["arrived"]:
            raise TimeoutError(f"no such request arrived within {timeout_s} s")

    def release(self, *, lost_response: bool = False) -> None:
        """Let the request continue. With `lost_response` it takes effect, and then its connection
        breaks, as if the response were lost in the network."""
        self._faults.ask("release", id=self._number, lost=lost_response)

    def __enter__(self) -> Held:
        return self


class Kill:
    """A fail point at which the broker will kill itself."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def end(self) -> None:
        """Remove the fail point, if the broker still runs."""
        self._faults._end("kill_nowhere")

    def __enter__(self) -> Kill:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()
