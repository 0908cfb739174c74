"""`oncelog health`: asks a broker for its API versions, which every listener serves before
authentication. The response also says whether the metadata store (etcd) responds to the broker.

A health check runs every few seconds, so it imports as little as possible: not the client, bare
connections, and TLS only for a listener that has it. No certificate is verified, because nothing
secret is sent.
"""

from __future__ import annotations

import struct
import sys
import time

from oncelog_client.bare_connection import Secured, connect
from oncelog_client.listener_addresses import DEFAULT, Address, listeners, parse_addresses

# The import of `typing` takes a tenth of the time of a check.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from oncelog_client.bare_connection import Connection, Plain

TIMEOUT_S: Final = 4.0
# ApiVersions v3: a header without client id and tags, name and version of the software, no tags.
_BODY: Final = struct.pack(">hhih", 18, 3, 0, -1) + b"\x00\x0foncelog-health\x021\x00"
_REQUEST: Final = struct.pack(">i", len(_BODY)) + _BODY
# The size of the response, its correlation id and its error code.
_RESPONSE: Final = struct.Struct(">iih")
_SIZE: Final = 4
LARGEST: Final = 1 << 20
# The version is unknown to the broker, which therefore responds as in version 0.
_UNSUPPORTED_VERSION: Final = 35
# Key, versions. Each API may have tags.
_API_SIZE: Final = 6
_THROTTLE_TIME_SIZE: Final = 4
# The tags `store_silence_ms` and `is_suspended` of `oncelog_protocol.features`.
_SILENCE_TAG: Final = 10_042
_SUSPENDED_TAG: Final = 10_043
# A listener that demands a client certificate ends the handshake with this alert. The broker is
# alive then.
_DEMANDS_CERTIFICATE: Final = (
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "SSLV3_ALERT_BAD_CERTIFICATE",
    "SSLV3_ALERT_HANDSHAKE_FAILURE",
)


# A broker closes connections above a limit (max.connections) without a response. A listener with
# TLS does so before the handshake.
_CLOSED: Final = "the connection was closed before a response; the log of the broker says why"


class NoResponse(Exception):
    """A listener does not respond as a broker does. The message is the reason."""


class Condition:
    """The state of a broker, as the broker itself reports it. `silence_ms`: the time for which its
    metadata store has not responded, 0 while it responds. `is_suspended`: the broker leads nothing,
    because it may not be registered any more."""

    def __init__(self, silence_ms: int = 0, is_suspended: bool = False) -> None:
        self.silence_ms = silence_ms
        self.is_suspended = is_suspended

    def __str__(self) -> str:
        """Return the words after `a broker responds at ADDRESS`."""
        parts = ["; it leads nothing"] if self.is_suspended else []
        if self.silence_ms:
            ms = self.silence_ms
            time = f"{ms // 1000} s" if ms >= 1000 else f"{ms} ms"
            parts.append(f"; its metadata store has not responded for {time}")
        return "".join(parts)


def check(
    addresses: Sequence[Address], timeout_s: float
) -> tuple[Address | None, Condition, list[str]]:
    """Return the first address with a broker that responds, its condition, and the failures of the
    addresses before.

    `timeout_s` is the time for all addresses together. Listeners without TLS are asked first,
    because they need less work.
    """
    deadline_s = time.monotonic() + timeout_s
    failures = []
    for address in sorted(addresses, key=lambda address: bool(address.tls)):
        try:
            condition = _ask(address, deadline_s)
        except NoResponse as error:
            failures.append(f"{address}: {error}")
        else:
            return address, condition, failures
    return None, Condition(), failures


def _ask(address: Address, deadline_s: float) -> Condition:
    """Return the condition of the broker. Raise NoResponse unless the listener responds without an
    error code."""
    if not address.tls:
        try:
            return _ask_once(address, deadline_s, tls=False)
        except NoResponse:
            # A listener with TLS closes a connection that begins without TLS.
            if address.tls is not None or time.monotonic() >= deadline_s:
                raise
    return _ask_once(address, deadline_s, tls=True)


def _ask_once(address: Address, deadline_s: float, *, tls: bool) -> Condition:
    try:
        with connect(address.host, address.port, deadline_s) as plain:
            return _ask_over_tls(plain) if tls else _exchange(plain)
    except TimeoutError:
        raise NoResponse("no response in time") from None
    except (ConnectionResetError, BrokenPipeError):
        raise NoResponse(_CLOSED) from None
    except OSError as error:
        raise NoResponse(error.strerror or type(error).__name__) from None


def _ask_over_tls(plain: Plain) -> Condition:
    import _ssl

    try:
        return _exchange(Secured(plain))
    except (_ssl.SSLEOFError, _ssl.SSLZeroReturnError):  # by the version of Python
        raise NoResponse(_CLOSED) from None
    except _ssl.SSLError as error:
        if error.reason not in _DEMANDS_CERTIFICATE:
            raise NoResponse(f"no TLS: {error.reason or error}") from None
        return Condition()


def _exchange(connection: Connection) -> Condition:
    """Send the request, and return the condition in the response. Raise NoResponse for a response
    with an error code, and for bytes that are no response."""
    connection.sendall(_REQUEST)
    head = _received(connection, _RESPONSE.size)
    size, correlation_id, error_code = _RESPONSE.unpack(head)
    if correlation_id or not _RESPONSE.size - _SIZE <= size <= LARGEST:
        raise NoResponse("not the response of a broker")
    if error_code == _UNSUPPORTED_VERSION:
        return Condition()
    if error_code:
        raise NoResponse("not the response of a broker")
    try:
        return _condition(_received(connection, size + _SIZE - _RESPONSE.size))
    except (IndexError, struct.error):
        raise NoResponse("not the response of a broker") from None


def _received(connection: Connection, size: int) -> bytes:
    received = b""
    while len(received) < size:
        data = connection.recv(size - len(received))
        if not data:
            raise NoResponse(_CLOSED)
        received += data
    return received


def _condition(body: bytes) -> Condition:
    """Return the condition in a response from its list of APIs on. Raises IndexError and
    struct.error if the response is too short."""
    count, at = _varint(body, 0)
    for _ in range(count - 1):
        _, at = _tags(body, at + _API_SIZE)
    tags, _ = _tags(body, at + _THROTTLE_TIME_SIZE)
    silence = tags.get(_SILENCE_TAG)
    return Condition(
        0 if silence is None else struct.unpack(">q", silence)[0],
        tags.get(_SUSPENDED_TAG, b"") == b"\x01",
    )


def _tags(body: bytes, at: int) -> tuple[dict[int, bytes], int]:
    """Return the tagged fields that begin at `at`, and the place behind them."""
    count, at = _varint(body, at)
    tags = {}
    for _ in range(count):
        tag, at = _varint(body, at)
        size, at = _varint(body, at)
        tags[tag] = body[at : at + size]
        at += size
    return tags, at


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned number at `at`, and the place behind it."""
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def run(addresses: Sequence[Address], timeout_s: float) -> int:
    """Print the result of the check, and return the exit code: 0 if a broker responds and may lead
    partitions, else 1."""
    found, condition, failures = check(addresses, timeout_s)
    if found is None:
        sys.stderr.write("\n".join(failures or ["there is no listener to ask"]) + "\n")
        return 1
    text = f"a broker responds at {found}{condition}\n"
    (sys.stderr if condition.is_suspended else sys.stdout).write(text)
    return int(condition.is_suspended)


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
