"""One call to etcd, as short as possible. The host may be out of memory or busy at the time of the
call. So the call needs no event loop, and everything that it imports is imported at the start.

The broker itself calls etcd by `oncelog_server.etcd`.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - the look-up of a host and TLS import it at their first call
import json
import socket
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any

    from oncelog_server.exit_monitor.pipe import Monitored

TIMEOUT_S = 1.0
_REVOKE = "/v3/lease/revoke"
_AUTHENTICATE = "/v3/auth/authenticate"
_LEASE_NOT_FOUND = b"requested lease not found"
_READ = 65_536


class Outcome:
    """The outcome of an attempt. `failure` is "" if the lease has ended. `was_alive` is True if
    this attempt has ended it."""

    def __init__(self, failure: str, *, was_alive: bool = False) -> None:
        self.failure = failure
        self.was_alive = was_alive


class Revocation:
    """Ends leases of one broker."""

    def __init__(self, monitored: Monitored) -> None:
        """Import all that a call needs."""
        self._members = monitored.members
        self._login = monitored.login
        self._tls = monitored.tls
        if self._tls is not None:
            # Making a context imports the code for the formats of the key store and the trust
            # store. A store that cannot be read now may be readable at the call.
            with suppress(OSError, ValueError):
                self._context()

    def try_once(self, lease_id: int) -> Outcome:
        """End a lease at the first member that does so. A failure is what the last member has
        responded."""
        outcome = Outcome("")
        for host, port, has_tls in self._members:
            try:
                outcome = self._end(host, port, lease_id, has_tls=has_tls)
            except (OSError, ValueError) as error:  # ValueError: an invalid certificate, or no HTTP
                outcome = Outcome(f"{host}:{port}: {error}")
            if not outcome.failure:
                break
        return outcome

    def _end(self, host: str, port: int, lease_id: int, *, has_tls: bool) -> Outcome:
        member = _Member(host, port, self._context() if has_tls else None)
        token = ""
        if self._login is not None:
            name, password = self._login
            status, body = member.post(_AUTHENTICATE, {"name": name, "password": password})
            if status != 200:
                return Outcome(f"{host}:{port}: HTTP status {status} for the login")
            token = _token(body)
        status, body = member.post(_REVOKE, {"ID": str(lease_id)}, token)
        if status == 200:
            return Outcome("", was_alive=True)
        return Outcome("" if _LEASE_NOT_FOUND in body else f"{host}:{port}: HTTP status {status}")

    def _context(self) -> ssl.SSLContext:
        """Return the context, with the certificates that the files have now."""
        from oncelog_protocol.secret import Secret
        from oncelog_protocol.security.tls_settings import TlsSettings
        from oncelog_protocol.tls.contexts import client_context

        assert self._tls is not None
        fields: dict[str, Any] = {
            name: Secret(value) if name.endswith("_password") and value is not None else value
            for name, value in self._tls.items()
        }
        return client_context(TlsSettings(**fields))


class _Member:
    """A member of etcd. Each request has its own connection. HTTP/1.0 needs no parser: the response
    ends with the connection."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._host = host
        self._port = port
        self._context = context

    def post(self, path: str, fields: dict[str, str], token: str = "") -> tuple[int, bytes]:
        """Return the HTTP status and the body of the response. Raises OSError and ValueError."""
        body = json.dumps(fields).encode()
        authority = f"[{self._host}]" if ":" in self._host else self._host
        lines = [
            f"POST {path} HTTP/1.0",
            f"Host: {authority}:{self._port}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            # With this header, a member without a leader refuses at once.
            "Grpc-Metadata-hasleader: true",
        ]
        if token:
            lines.append(f"Authorization: {token}")
        request = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
        with socket.create_connection((self._host, self._port), TIMEOUT_S) as connection:
            if self._context is None:
                response = _exchange(connection, request)
            else:
                with self._context.wrap_socket(connection, server_hostname=self._host) as secured:
                    response = _exchange(secured, request)
        head, _, found = response.partition(b"\r\n\r\n")
        return _status(head), found


def _status(head: bytes) -> int:
    """Return the HTTP status. Raises ValueError."""
    parts = head.split(b" ", 2)
    if len(parts) < 2:
        raise ValueError("an HTTP response without a status")
    return int(parts[1])


def _token(body: bytes) -> str:
    """Return the token of a login. Raises ValueError. A proxy may respond in the place of etcd."""
    login = json.loads(body)
    token = login.get("token") if isinstance(login, dict) else None
    if not isinstance(token, str):
        raise ValueError("a login without a token")
    return token


def _exchange(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    parts = []
    while data := connection.recv(_READ):
        parts.append(data)
    response = b"".join(parts)
    if not response.startswith(b"HTTP/1."):
        raise ValueError("no response in HTTP")
    return response
