"""Ports that no other process can take between their choice and their use, or during a restart."""

from __future__ import annotations

import errno
import os
import socket
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

# The ports of this many former owners stay reserved. A client may outlive its broker (Spark keeps
# its producers for minutes) and continue to connect to the old port. The next listener on that port
# would take the old client for its own. Spark's JVM, for example, serves a result to the first
# client that connects.
LATE: Final = 64

# This socket option exists only on Linux. Python's socket module names it from 3.14 on.
_IP_BIND_ADDRESS_NO_PORT: Final = 24

# Maximum number of attempts. An attempt fails if its port, free for IPv4, is in use for IPv6.
TRIES: Final = 100

NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)

_late: deque[list[int]] = deque()


def reserve_port(owner: object) -> int:
    """Return a port that the system gives to no other process as long as `owner` exists.

    The port is bound on every address, but no socket listens on it, so connections are refused. A
    server that names the port and sets SO_REUSEADDR may listen on it, repeatedly. With a bind on
    one address only, the system could give the port to a client socket on another address. Up to a
    minute after its close, such a socket would keep a broker from listening on all addresses."""
    return reserve_ports(owner, 1)


def reserve_ports(owner: object, count: int) -> int:
    """Return the first of `count` ports that follow each other. Each is reserved as by
    `reserve_port`."""
    for _ in range(TRIES):
        with ExitStack() as tried:
            held: list[socket.socket] = []
            try:
                held.extend(map(tried.enter_context, _holders(0)))
                first = int(held[0].getsockname()[1])
                for port in range(first + 1, first + count):
                    held.extend(map(tried.enter_context, _holders(port)))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue  # a program has one of the ports, perhaps for IPv6 only
            weakref.finalize(owner, _let_go, [holder.detach() for holder in held])
            return first
    ports = "port is" if count == 1 else f"{count} ports that follow each other are"
    raise OSError(errno.EADDRINUSE, f"no {ports} free for both IPv4 and IPv6, in {TRIES} tries")


def passing_socket(address: str) -> socket.socket:
    """Return a client's socket with this local address. Its port is free right after the close.
    Otherwise ten thousand sockets would block their ports for a minute, and a broker could not
    listen on its former port."""
    passing = socket.socket()
    passing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # The port is chosen at the connect, so no pair of addresses occurs twice.
    passing.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
    passing.bind((address, 0))
    return passing


def free_ports(count: int) -> list[int]:
    """Return different ports without a listener. They stay reserved to the end of the process."""
    return [reserve_port(free_ports) for _ in range(count)]


def _holders(port: int) -> Iterator[socket.socket]:
    """Yield the sockets that reserve a port: one for IPv4, and one for IPv6 if this machine has it.
    With 0 the system picks the port."""
    holder = _bound(socket.AF_INET, "", port)
    yield holder
    try:
        also = _bound(socket.AF_INET6, "::", holder.getsockname()[1])
    except OSError as error:
        if error.errno in NO_IPV6:
            return
        raise
    yield also


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    holder = socket.socket(family)
    try:
        if family is socket.AF_INET6:
            holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        holder.bind((host, port))
        # Only after the bind, because before it this option would let two owners have one port.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        holder.close()
        raise
    return holder


def _let_go(descriptors: list[int]) -> None:
    _late.append(descriptors)
    if len(_late) > LATE:
        for descriptor in _late.popleft():
            os.close(descriptor)
