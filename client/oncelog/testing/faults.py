"""Faults of a running broker: failed requests, held requests, kills at a fail point, a slow or full
disk.

The broker must have been started with `--allow-faults`, as `Broker` starts it. The faults go over a
Unix socket in the data directory.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from oncelog_client.core import arguments

# Usually the broker responds at once. It takes longer only if the command waits for a request.
RESPONSE_TIMEOUT_S: Final = 10.0
ARRIVAL_TIMEOUT_S: Final = 30.0
_EVERY_PATH: Final = "."


class FaultRefused(Exception):
    """The broker refused the fault. The message names the invalid argument. An argument of a wrong
    type raises TypeError."""


class Faults:
    """The faults of one broker.

    A fault takes effect at once. It ends when it is used up, with `end()`, or with `clear()`; used
    as a context manager, it ends with the block. `topic` may be a name or a `Topic`.

    `unmet` describes the faults that have ended without any effect: no request met them, or the
    broker did not reach the fail point. A test with such a fault has tested nothing. The end of the
    process ends its faults too.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        # The faults that may be met and have not ended, by their ids.
        self._made: dict[str, str] = {}
        self.unmet: list[str] = []

    def fail(
        self,
        api: str,
        error: str,
        *,
        times: int | None = 1,
        topic: object = None,
        client_id: str | None = None,
    ) -> Fault:
        """Let the next `times` requests of this API (`EndTxn`) get an error code
        (`COORDINATOR_NOT_AVAILABLE`), without any other effect.

        `times=None`: all requests until the fault ends. `topic` and `client_id` limit the fault to
        requests with this topic or of this client. Raises FaultRefused for an unknown name.
        """
        if times is not None:
            times = arguments.whole_number("times", times)
        return Fault(self, self._make("fail", api, topic, client_id, error=error, times=times))

    def hold(
        self,
        api: str,
        *,
        topic: object = None,
        client_id: str | None = None,
        response: bool = False,
    ) -> Held:
        """Hold the next request of this API before it takes effect, until `release`.

        With `response=True`, the request takes effect at once, and only its response is held. Later
        requests of the same connection wait too. Raises FaultRefused for an unknown name.
        """
        return Held(self, self._make("hold", api, topic, client_id, holds_response=response))

    def kill_at(self, point: str) -> Kill:
        """Let the broker kill itself (SIGKILL) when it reaches a fail point: `after-prepare`, or
        `after-data:3` for the third time. Raises FaultRefused for an unknown point, with the list
        of all points. A broker has one fail point at a time."""
        fault_id = self._begin("kill_at", point=point)
        self._made[fault_id] = f"kill_at({point!r})"
        return Kill(self, fault_id)

    def delay_fsync(self, ms: int) -> Switch:
        """Let each fsync take `ms` milliseconds longer. A broker syncs before it responds only with
        `oncelog.flush.on.ack` or `flush.messages`."""
        return Switch(self, self._begin("delay_fsync", ms=arguments.number("ms", ms)))

    def disk_full(self, *patterns: str) -> Switch:
        """Refuse writes as on a full disk. Each pattern is a regular expression for paths below the
        data directory, such as `invoices-`. Without patterns, all writes are refused."""
        checked = arguments.texts("patterns", patterns)
        return Switch(self, self._begin("fill_disk", patterns=checked or [_EVERY_PATH]))

    def pending(self) -> int:
        """Return the number of faults of requests that are not used up."""
        return int(self.ask("pending")["rules"])

    def clear(self) -> None:
        """End all faults. Held requests continue. The clock keeps its time."""
        point = self.ask("clear")["initial_point"]
        self.conclude()
        if point is not None:
            self.unmet.append(f"kill_at({point!r})")

    def conclude(self) -> None:
        """Add the faults without any effect to `unmet`: all faults have ended, because the process
        has ended or because of `clear`."""
        for fault_id in list(self._made):
            self._judge(fault_id)

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a command to the broker, and return its response. Raises FaultRefused. Raises
        OSError if the broker does not run or was not started with `--allow-faults`."""
        from oncelog_server.operating_system.socket_path import socket_path
        from oncelog_server.storage.layout import FAULTS_SOCKET

        timeout_s = RESPONSE_TIMEOUT_S + arguments.get("timeout_ms", 0) / 1000
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(timeout_s)
            with socket_path(self._data, FAULTS_SOCKET) as path:
                try:
                    control.connect(path)
                except (ConnectionRefusedError, FileNotFoundError) as error:
                    sentence = "the broker does not run, or runs without --allow-faults"
                    raise ConnectionRefusedError(f"{sentence}: restart() it") from error
            control.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
            with control.makefile("rb") as responses:
                line = responses.readline()
        if not line:
            raise ConnectionResetError(f"the broker ended during the command {command}")
        response: dict[str, Any] = json.loads(line)
        if "error" in response:
            raise FaultRefused(response["error"])
        return response

    def _make(
        self, command: str, api: str, topic: object, client_id: str | None, **more: Any
    ) -> str:
        """Make a fault of requests. Return its id."""
        named = None if topic is None else arguments.text("topic", getattr(topic, "name", topic))
        if client_id is not None:
            arguments.text("client_id", client_id)
        fault_id = self._begin(command, api=api, topic=named, client_id=client_id, **more)
        limits = "".join(f", {value!r}" for value in (named, client_id) if value is not None)
        self._made[fault_id] = f"{command}({api!r}{limits})"
        return fault_id

    def _begin(self, command: str, **arguments: Any) -> str:
        return str(self.ask(command, **arguments)["id"])

    def _end(self, fault_id: str) -> None:
        """End a fault. A broker that does not run has no faults."""
        with suppress(OSError):
            self.ask("end", id=fault_id)
        self._judge(fault_id)

    def _judge(self, fault_id: str) -> None:
        """Add an ended fault to `unmet` if it has had no effect. Nothing happens the second
        time."""
        made = self._made.pop(fault_id, None)
        if made is not None and fault_id not in self._met():
            self.unmet.append(made)

    def _met(self) -> frozenset[str]:
        """Return the ids of the faults that have had an effect, also in earlier processes."""
        from oncelog_server.storage.layout import FAULTS_MET

        try:
            return frozenset((self._data / FAULTS_MET).read_text().split())
        except FileNotFoundError:  # the directory was deleted, or the process never started
            return frozenset()


class Fault:
    """A fault. As a context manager, it ends with the block."""

    def __init__(self, faults: Faults, fault_id: str) -> None:
        self._faults = faults
        self._id = fault_id

    def end(self) -> None:
        """End the fault. Nothing happens if it is over, or if its process has ended: a fault of a
        later process stays."""
        self._faults._end(self._id)

    def __enter__(self) -> Self:
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
        response = self._faults.ask("wait", id=self._id, timeout_ms=round(timeout_s * 1000))
        if not response["arrived"]:
            raise TimeoutError(f"no such request arrived within {timeout_s} s")

    def release(self, *, lost_response: bool = False) -> None:
        """Let the request continue. With `lost_response` it takes effect, and then its connection
        breaks, as if the response were lost in the network. Raises FaultRefused if the broker was
        started again meanwhile."""
        self._faults.ask("release", id=self._id, lost=lost_response)


class Kill(Fault):
    """A fail point at which the broker will kill itself."""


class Switch(Fault):
    """A state of the disk: slow or full."""
