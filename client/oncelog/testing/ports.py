"""Ports that no other process can take between their choice and their use, or during a restart."""

from __future__ import annotations

import errno
import os
import socket
import weakref
from collections import deque
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
    for _ in range(TRIES):
        held = [_bound(socket.AF_INET, "", 0)]
        port = int(held[0].getsockname()[1])
        try:
            held.append(_bound(socket.AF_INET6, "::", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:  # a program has this port for IPv6 only
                held[0].close()
                continue
            if error.errno not in NO_IPV6:
                raise
        weakref.finalize(owner, _let_go, [holder.detach() for holder in held])
        return port
    raise OSError(errno.EADDRINUSE, f"no port is free for both IPv4 and IPv6, in {TRIES} tries")


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


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    holder = socket.socket(family)
    try:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        holder.bind((host, port))
    except OSError:
        holder.close()
        raise
    return holder


def _let_go(descriptors: list[int]) -> None:
    _late.append(descriptors)
    if len(_late) > LATE:
        for descriptor in _late.popleft():
            os.close(descriptor)
