"""Blocking connections over the extension modules that `socket` and `ssl` wrap, for `oncelog
health`. The import of the two wrappers takes half of the time of a check, mostly for enumerations
and for a table of codecs that a check does not use.
"""

from __future__ import annotations

import _socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, Self

    class Connection(Protocol):
        """The part of a socket that a check uses. `recv` returns b"" at the end of the stream."""

        def sendall(self, data: bytes, /) -> None: ...

        def recv(self, size: int, /) -> bytes: ...


class Plain(_socket.socket):
    """A socket. It is a class of its own because TLS refers to its socket weakly, which the class
    of the extension module does not allow."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Secured:
    """TLS over a connected socket, after the handshake. No certificate is verified.

    Raises `ssl.SSLError`, an OSError with the attribute `reason`, and `ssl.SSLEOFError` for a
    stream that ends without TLS's own end.
    """

    def __init__(self, plain: Plain) -> None:
        import _ssl

        context = _ssl._SSLContext(_ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = _ssl.CERT_NONE
        # The stubs of the extension module leave this method out.
        stream = context._wrap_socket(plain, False)  # type: ignore[attr-defined]
        stream.do_handshake()
        self.sendall = stream.write
        self.recv = stream.read


def connect(host: str, port: int, deadline_s: float) -> Plain:
    """Return a connection to the first address of the host that accepts it, with the time that is
    left as its timeout. Raises the OSError of the last address, and TimeoutError."""
    # A text would be encoded by a codec that takes a tenth of the time of a check to import.
    name = host.encode() if host.isascii() else host
    failure: OSError = TimeoutError()
    for family, kind, protocol, _, address in _socket.getaddrinfo(
        name, port, 0, _socket.SOCK_STREAM
    ):
        try:
            # The system may have no sockets of this family: IPv6 can be switched off.
            connection = Plain(family, kind, protocol)
        except OSError as error:
            failure = error
            continue
        try:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            connection.settimeout(left_s)
            connection.connect(address)
        except OSError as error:
            connection.close()
            failure = error
        else:
            return connection
    raise failure
