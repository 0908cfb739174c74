"""Ports that nobody else is given between their choice and their use, or over a restart."""

from __future__ import annotations

import os
import socket
import weakref
from collections import deque
from typing import Final

# Of so many owners that are gone the ports stay reserved: a client that has outlived its broker
# (Spark keeps its producers for minutes) goes on connecting to where it was, and would be taken for
# a client of whoever listens there now. Spark's JVM, for one, serves a result to the first that
# comes.
LATE: Final = 64

# Linux; the socket module has no name for it before Python 3.14.
_IP_BIND_ADDRESS_NO_PORT: Final = 24

_late: deque[int] = deque()


def reserve_port(owner: object) -> int:
    """A port of 127.0.0.1 that the system gives to nobody as long as `owner` is there.

    It is bound but does not listen: whoever names it and sets SO_REUSEADDR, as servers do, may
    listen there, as often as it likes; a connection is refused until then.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port = int(holder.getsockname()[1])
        weakref.finalize(owner, _let_go, holder.detach())
    return port


def passing_socket(address: str) -> socket.socket:
    """A socket of a client that has this address of the machine, and whose port stands in nobody's
    way when it is closed: of ten thousand such a minute's worth would else be taken, and a broker
    that was given one of these ports before could not listen there."""
    passing = socket.socket()
    passing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # The port is chosen when it connects: no pair of ends is drawn twice.
    passing.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
    passing.bind((address, 0))
    return passing


def free_ports(count: int) -> list[int]:
    """Ports where nobody listens, all different, reserved to the end of the process."""
    return [reserve_port(free_ports) for _ in range(count)]


def _let_go(descriptor: int) -> None:
    _late.append(descriptor)
    if len(_late) > LATE:
        os.close(_late.popleft())
