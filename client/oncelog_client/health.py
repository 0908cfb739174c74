"""`oncelog health`: asks a broker for its API versions, which every listener serves before
authentication.

A health check runs every few seconds, so it uses plain sockets and imports as little as possible:
not the client, and TLS only for a listener that has it. No certificate is verified, because nothing
secret is sent.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from oncelog_client.listener_addresses import DEFAULT, Address, listeners, parse_addresses

# The import of `typing` takes a tenth of the time of a check.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

TIMEOUT_S: Final = 4.0
# ApiVersions v0 of a client without a name.
_REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, 0, -1)
# The size of the response, which is not checked, its correlation id and its error code.
_RESPONSE: Final = struct.Struct(">iih")
# A listener that demands a client certificate ends the handshake with this alert. The broker is
# alive then.
_DEMANDS_CERTIFICATE: Final = (
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "SSLV3_ALERT_BAD_CERTIFICATE",
    "SSLV3_ALERT_HANDSHAKE_FAILURE",
)


class NoResponse(Exception):
    """A listener does not respond as a broker does. The message is the reason."""


def check(addresses: Sequence[Address], timeout_s: float) -> tuple[Address | None, list[str]]:
    """Return the first address with a broker that responds, and the failures of those before.

    `timeout_s` is the time for all addresses together. Listeners without TLS are asked first,
    because they need less work.
    """
    deadline_s = time.monotonic() + timeout_s
    failures = []
    for address in sorted(addresses, key=lambda address: bool(address.tls)):
        try:
            _ask(address, deadline_s)
        except NoResponse as error:
            failures.append(f"{address}: {error}")
        else:
            return address, failures
    return None, failures


def _ask(address: Address, deadline_s: float) -> None:
    """Raise NoResponse unless the listener responds without an error code."""
    if not address.tls:
        try:
            _ask_once(address, deadline_s, tls=False)
            return
        except NoResponse:
            # A listener with TLS closes a connection that begins without.
            if address.tls is not None or time.monotonic() >= deadline_s:
                raise
    _ask_once(address, deadline_s, tls=True)


def _ask_once(address: Address, deadline_s: float, *, tls: bool) -> None:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise NoResponse("no response in time")
    try:
        with socket.create_connection((address.host, address.port), left_s) as connection:
            if tls:
                _ask_over_tls(connection)
            else:
                _exchange(connection)
    except TimeoutError:
        raise NoResponse("no response in time") from None
    except OSError as error:
        raise NoResponse(error.strerror or type(error).__name__) from None


def _ask_over_tls(connection: socket.socket) -> None:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with context.wrap_socket(connection) as secured:
            _exchange(secured)
    except ssl.SSLError as error:
        if error.reason not in _DEMANDS_CERTIFICATE:
            raise NoResponse(f"no TLS: {error.reason or error}") from None


def _exchange(connection: socket.socket) -> None:
    """Send the request, and raise NoResponse for a response with an error code, and for bytes that
    are no response."""
    connection.sendall(_REQUEST)
    received = b""
    while len(received) < _RESPONSE.size:
        data = connection.recv(_RESPONSE.size - len(received))
        if not data:
            raise NoResponse("the connection was closed")
        received += data
    _, correlation_id, error_code = _RESPONSE.unpack(received)
    if correlation_id or error_code:
        raise NoResponse("not the response of a broker")


def run(addresses: Sequence[Address], timeout_s: float) -> int:
    """Print the result of the check, and return the exit code: 0 if a broker responds, else 1."""
    healthy, failures = check(addresses, timeout_s)
    if healthy is None:
        sys.stderr.write("\n".join(failures or ["there is no listener to ask"]) + "\n")
        return 1
    sys.stdout.write(f"a broker responds at {healthy}\n")
    return 0


def addresses_of(server: str, config: str, environment: Mapping[str, str]) -> list[Address]:
    """Return the addresses to ask: `server` if it is not empty, else the listeners of the broker
    with this server.properties and environment. Raises ValueError, and OSError for the file."""
    server = server or environment.get("ONCELOG_BOOTSTRAP_SERVER", "")
    if server:
        return parse_addresses(server)
    lines: list[str] = []
    if config:
        with open(config, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
    return listeners(environment, lines) or parse_addresses(DEFAULT)


def quick_arguments(arguments: Sequence[str]) -> tuple[str, str] | None:
    """Return (server, config) of the usual command lines. Return None for all others, which click
    parses, at twice the cost."""
    given = {"--bootstrap-server": "", "--config": ""}
    names, values = arguments[::2], arguments[1::2]
    if len(names) != len(values) or not set(names) <= set(given) or len(set(names)) < len(names):
        return None
    given.update(zip(names, values, strict=True))
    return given["--bootstrap-server"], given["--config"]
