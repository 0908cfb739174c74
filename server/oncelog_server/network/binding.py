"""Binds server sockets at the start, and listens when the broker is ready. Both steps can fail. The
error then names the reason.

This module calls `listen` itself, because uvloop's `start_serving` does not report a failure of
`listen`. Such a failure can follow a successful `bind`: two processes may bind the same port as
long as neither listens.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress

import msgspec

EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})


class CannotListen(OSError):
    """The broker cannot listen on an address. The text names the address, the reason and the
    remedy."""


class BindAddress(msgspec.Struct, frozen=True):
    """An address to listen on. An empty `host` means every address. `port` 0 means a free port.
    `setting` is the name of the setting that has the address. `way_out` is the advice if the port
    is in use."""

    host: str
    port: int
    setting: str
    way_out: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host or "every address"
        return f"{host}:{self.port}" if self.host else f"port {self.port} of every address"


async def bind(
    factory: Callable[[], asyncio.BaseProtocol], address: BindAddress, backlog: int
) -> asyncio.Server:
    """Return a server that is bound and does not listen yet. Raises CannotListen if the address
    cannot be bound."""
    try:
        return await asyncio.get_running_loop().create_server(
            factory,
            address.host or None,
            address.port,
            backlog=backlog,
            reuse_address=True,
            start_serving=False,
        )
    except OSError as error:
        raise _reason(error, address) from error


async def listen(
    server: asyncio.Server, address: BindAddress, backlog: int, receive_buffer_bytes: int = -1
) -> None:
    """Listen on all sockets of a bound server, and accept connections. Raises CannotListen if a
    socket cannot listen.

    `receive_buffer_bytes` is the SO_RCVBUF of each connection; -1 leaves it to the system.
    Connections inherit it from the listening socket, so it holds for the first window too.
    """
    try:
        for bound in server.sockets:
            with bound.dup() as same:
                if receive_buffer_bytes > 0:
                    same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
                same.listen(backlog)
    except OSError as error:
        raise _reason(error, address) from error
    await server.start_serving()


def _reason(error: OSError, address: BindAddress) -> CannotListen:
    setting = address.setting
    if error.errno == errno.EADDRINUSE:
        owner = ""
        with suppress(OSError, ValueError):
            from oncelog_server.network.port_owner import port_owner

            owner = port_owner(address.port)
        holder = f" by {owner}" if owner else ""
        return CannotListen(f"port {address.port} is in use{holder}: {address.way_out}")
    if isinstance(error, socket.gaierror):
        return CannotListen(f"{setting}: no such host: {address.host} ({error.strerror})")
    if error.errno == errno.EADDRNOTAVAIL:
        return CannotListen(f"{setting}: this machine has no address {address.host}")
    if error.errno == errno.EACCES:
        return CannotListen(
            f"{setting}: no permission to listen on port {address.port}; "
            "ports below 1024 need a privilege: use a higher port"
        )
    return CannotListen(f"{setting}: cannot listen on {address}: {error.strerror or error}")
