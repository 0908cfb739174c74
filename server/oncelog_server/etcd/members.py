"""The members of etcd, and the connections to them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

import structlog

from oncelog_server.cluster.store import FinalFailure
from oncelog_server.etcd.http_connection import HttpConnection, refuses_certificate
from oncelog_server.settings.etcd_addresses import EtcdAddress

CONNECT_TIMEOUT_S: Final = 1.0
# Maximum number of idle connections to one member.
_KEPT: Final = 4


# Returns the context of a new connection.
NewContext = Callable[[], ssl.SSLContext]

log = structlog.get_logger("oncelog.etcd")


class Member:
    """One member: its address, and its connections."""

    def __init__(self, address: EtcdAddress, context: NewContext | None) -> None:
        self.address = address
        self._context = context if address.has_tls else None
        self._idle: list[HttpConnection] = []
        self._used: dict[HttpConnection, None] = {}
        # True if the last connection failed.
        self._is_failing = False

    async def connection(self) -> HttpConnection:
        """Return an idle connection, or a new one. Raises OSError."""
        while self._idle:
            idle = self._idle.pop()
            if idle.is_reusable:
                self._used[idle] = None
                return idle
            idle.close()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, new = await asyncio.get_running_loop().create_connection(
                    lambda: HttpConnection(self.address.authority),
                    self.address.host,
                    self.address.port,
                    ssl=None if self._context is None else self._context(),
                )
        except TimeoutError as error:
            raise self._failed(f"no connection in {CONNECT_TIMEOUT_S} s") from error
        except ssl.SSLError as error:
            from oncelog_protocol.tls.failures import reason_of

            reason = reason_of(error, is_server=False)
            raise self._failed(reason, is_final=refuses_certificate(error)) from error
        except OSError as error:
            raise self._failed(str(error)) from error
        self._is_failing = False
        self._used[new] = None
        return new

    def _failed(self, reason: str, *, is_final: bool = False) -> OSError:
        """Log the first failure after a success, because calls continue at the other members.
        Return the exception."""
        if not self._is_failing:
            log.warning(
                "no connection to a member of etcd", member=str(self.address), reason=reason
            )
        self._is_failing = True
        kind = FinalFailure if is_final else OSError
        return kind(f"no connection to {self.address}: {reason}")

    def release(self, connection: HttpConnection) -> None:
        """Take a connection back. It is closed unless its response was read to the end."""
        self._used.pop(connection, None)
        if connection.is_reusable and len(self._idle) < _KEPT:
            self._idle.append(connection)
        else:
            connection.close()

    def cut(self) -> None:
        """Close all connections. Their calls raise OSError."""
        for connection in (*self._idle, *self._used):
            connection.close()
        self._idle.clear()


class Members:
    """The members in the order of the setting. `present` is used until a call to it fails."""

    def __init__(self, addresses: tuple[EtcdAddress, ...], context: NewContext | None) -> None:
        self._members = [Member(address, context) for address in addresses]
        self._index = 0

    def __len__(self) -> int:
        return len(self._members)

    def __str__(self) -> str:
        return ", ".join(str(member.address) for member in self._members)

    @property
    def present(self) -> Member:
        return self._members[self._index]

    def leave(self, member: Member) -> None:
        """Use the next member."""
        if member is self.present:
            self._index = (self._index + 1) % len(self._members)

    def failed(self, member: Member) -> None:
        """Use the next member, and cut the connections to this one.

        A stopped member leaves a watch silent forever. So a failed call to the member ends its
        watches too, and they resume at the next member.
        """
        self.leave(member)
        member.cut()

    def close(self) -> None:
        for member in self._members:
            member.cut()
