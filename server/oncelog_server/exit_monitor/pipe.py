"""The lines that a broker writes to its exit monitor. The first line has all values that the
monitor needs to call etcd. Each later line has the id of a lease, which replaces the one before, or
says that the lease holds the broker's registration."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NO_LEASE = 0
_END = b"\n"
_REGISTERED = b"registered"
REGISTERED_LINE = _REGISTERED + _END


class Monitored:
    """The broker that a monitor watches, and the etcd with the broker's lease.

    `members` are host, port and TLS of each member. `tls` are the fields of `TlsSettings`, with
    secrets as text, None without TLS. After `session_s`, the lease has ended by itself. The broker
    writes these values to a pipe and never to a command line, because they include passwords.
    """

    def __init__(
        self,
        broker_id: int,
        session_s: float,
        members: list[tuple[str, int, bool]],
        login: tuple[str, str] | None = None,
        tls: dict[str, Any] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.session_s = session_s
        self.members = members
        self.login = login
        self.tls = tls

    def line(self) -> bytes:
        return json.dumps(vars(self)).encode() + _END


def lease_line(lease_id: int) -> bytes:
    """Return the line for a new lease, which replaces the one before."""
    return b"%d\n" % lease_id


class Received:
    """The lines that have come through the pipe so far."""

    def __init__(self) -> None:
        self.monitored: Monitored | None = None
        self.lease_id = NO_LEASE
        self.is_registered = False
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take the complete lines. An incomplete last line does not count, because the broker died
        while it wrote the line."""
        *lines, self._rest = (self._rest + data).split(_END)
        for line in lines:
            if self.monitored is None:
                self.monitored = Monitored(**json.loads(line))
            elif line == _REGISTERED:
                self.is_registered = True
            else:
                self.lease_id = int(line)
                self.is_registered = False
