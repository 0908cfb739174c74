"""The broker's side of its exit monitor: it starts the process, and notes each lease."""

from __future__ import annotations

import asyncio
import sys
from typing import Final, cast

import structlog

from oncelog_protocol.secret import Secret
from oncelog_server.etcd.opening import tls_settings
from oncelog_server.exit_monitor.pipe import NO_LEASE, REGISTERED_LINE, Monitored, lease_line
from oncelog_server.settings.etcd_addresses import parse_addresses
from oncelog_server.settings.model import Settings

log = structlog.get_logger("oncelog.cluster")

_CHILD: Final = "oncelog_server.exit_monitor.child"
_INPUT: Final = 0
# Pause before the start of another process, if one has died.
RESTART_S: Final = 10.0
# Maximum wait for the end of a process at a stop.
CLOSE_S: Final = 1.0


def monitored(settings: Settings) -> Monitored:
    """Return the values that the monitor of a broker with these settings gets."""
    addresses = parse_addresses(settings.oncelog_etcd_endpoints)
    login = None
    if settings.oncelog_etcd_username is not None:
        assert settings.oncelog_etcd_password is not None, "a contradiction of the settings"
        login = settings.oncelog_etcd_username, settings.oncelog_etcd_password.reveal()
    tls = None
    if any(address.has_tls for address in addresses):
        found = tls_settings(settings)._asdict().items()
        tls = {
            name: value.reveal() if isinstance(value, Secret) else value for name, value in found
        }
    session_s = settings.broker_session_timeout_ms / 1000
    return Monitored(
        settings.node_id, session_s, [(a.host, a.port, a.has_tls) for a in addresses], login, tls
    )


class ExitMonitorProcess(asyncio.SubprocessProtocol):
    """An exit monitor in a process of its own. If that process dies, another one starts."""

    def __init__(self, monitored: Monitored) -> None:
        self._monitored = monitored
        self._loop = asyncio.get_running_loop()
        self._lease_id = NO_LEASE
        self._is_registered = False
        self._transport: asyncio.SubprocessTransport | None = None
        self._starting: asyncio.Task[None] | None = None
        self._restart: asyncio.TimerHandle | None = None
        # Set while a process runs; done when the process has ended.
        self._exited: asyncio.Future[None] | None = None
        self._is_closed = False

    def start(self) -> None:
        self._restart = None
        self._starting = self._loop.create_task(self._start(), name="exit monitor")

    async def _start(self) -> None:
        try:
            # A session of its own, so that a signal to the broker's process group spares it.
            await self._loop.subprocess_exec(
                lambda: self,
                sys.executable,
                "-m",
                _CHILD,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=None,
                start_new_session=True,
            )
        except Exception as error:  # another attempt follows, also after a defect
            self._close_transport()
            self._ended(str(error), error)

    def keep(self, lease_id: int) -> None:
        self._lease_id = lease_id
        self._is_registered = False
        if self._transport is not None:
            self._write(lease_line(lease_id))

    def registered(self) -> None:
        self._is_registered = True
        if self._transport is not None:
            self._write(REGISTERED_LINE)

    async def close(self) -> None:
        self._is_closed = True
        if self._restart is not None:
            self._restart.cancel()
        if self._starting is not None:
            # A start that is cancelled may leave its process behind.
            await asyncio.wait([self._starting], timeout=CLOSE_S)
            self._starting.cancel()
        self._close_transport()
        if self._exited is not None:
            # If the loop were closed before the process has ended, the loop would log a defect.
            await asyncio.wait([self._exited], timeout=CLOSE_S)

    # --- the child

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Casts are necessary, because uvloop's transports do not derive from asyncio's classes.
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._exited = self._loop.create_future()
        if self._is_closed:
            self._transport.close()
            return
        self._write(self._monitored.line())
        if self._lease_id != NO_LEASE:
            self._write(lease_line(self._lease_id))
        if self._is_registered:
            self._write(REGISTERED_LINE)

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(_INPUT))
        if not pipe.is_closing():  # else the process has died, and `process_exited` follows
            pipe.write(data)

    def process_exited(self) -> None:
        exited, self._exited = self._exited, None
        if exited is not None:
            exited.set_result(None)
        self._close_transport()
        self._ended("it has exited")

    def _close_transport(self) -> None:
        """Close the pipe, and kill the process if it runs."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def _ended(self, reason: str, error: Exception | None = None) -> None:
        if self._is_closed or self._restart is not None:
            return
        log.warning(
            "the exit monitor does not run: if the broker is killed, others wait for its session",
            reason=reason,
            retry_s=RESTART_S,
            exc_info=None if isinstance(error, OSError) else error,
        )
        self._restart = self._loop.call_later(RESTART_S, self.start)
