"""One TLS connection without its socket: encrypted bytes in and out, plain bytes out and in.

The caller passes what it has read from the socket to `received`, and sends `outgoing` after every
other call. Nothing here waits, so that the caller has the deadlines, the limits and the pauses.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from oncelog_protocol.tls.client_hello import ClientHelloReader
from oncelog_protocol.tls.failures import reason_of

Bytes = bytes | bytearray | memoryview
_TLS_1_3: Final = "TLSv1.3"
_CLOSED_EARLY: Final = "the peer has closed the connection during the handshake"


class TlsFailed(Exception):
    """The connection cannot continue. `reason` is for a log: OpenSSL's reason in plain words.

    An alert for the peer may be in `outgoing`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TlsEngine:
    """The TLS state of one connection, of a listener if `host` is None, else of a client of that
    host name or address. A listener's engine uses OpenSSL only when the client has sent a whole
    ClientHello: a client that sends less costs little memory.

    Session tickets of TLS 1.3 leave with the first message after the handshake, usually a response.
    A client that closes without having read its tickets resets the connection. The system then
    discards the client's last requests, which a producer with acks=0 has sent without waiting for
    a response.
    """

    __slots__ = (
        "_context",
        "_failure",
        "_hello",
        "_host",
        "_incoming",
        "_outgoing",
        "_tickets",
        "_tls",
        "is_open",
        "peer_closed",
    )

    def __init__(self, context: ssl.SSLContext, host: str | None = None) -> None:
        self._context = context
        self._host = host
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        # None once OpenSSL has the ClientHello, and always for a client.
        self._hello = ClientHelloReader() if host is None else None
        if host is not None:
            self._begin()
        # The reason of a failure. An exception in its place would refer to this engine by its
        # traceback, and such a cycle would stay until a full collection.
        self._failure: str | None = None
        # Encrypted session tickets that have not left.
        self._tickets = b""
        # True from the end of the handshake.
        self.is_open = False
        # True if the peer has ended and `read` has returned all that it sent.
        self.peer_closed = False

    def received(self, data: Bytes) -> None:
        """Take bytes of the socket: whole records or parts of them."""
        if self._hello is None:
            self._incoming.write(data)
        else:
            self._hello.add(data)

    def received_eof(self) -> None:
        """Note that the socket has no more bytes. A peer may end without close_notify, as Java's
        clients do when they are killed."""
        if self._hello is None:
            self._incoming.write_eof()
        else:
            self._hello.has_ended = True

    @property
    def unread(self) -> int:
        """Return the number of received bytes that `read` has not returned. Bytes that are still
        encrypted count too. A caller that pauses its socket above a limit compares this."""
        if self._hello is not None:
            return len(self._hello.collected)
        return self._incoming.pending + self._tls.pending()

    def handshake(self) -> bool:
        """Continue the handshake. Return True once it is complete. Raises TlsFailed."""
        if not self.is_open:
            if self._failure is not None:
                raise TlsFailed(self._failure)
            if self._hello is not None:
                refusal = self._hello.refusal
                if refusal is not None:
                    self._fail(refusal)
                if not self._hello.is_whole():
                    if self._hello.has_ended:
                        self._fail(_CLOSED_EARLY)
                    return False
                self._begin()
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                return False
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                self._fail(_CLOSED_EARLY)
            except ssl.SSLError as error:
                self._fail(self._reason_of(error))
            self.is_open = True
            if self._host is None and self._tls.version() == _TLS_1_3:
                # In TLS 1.3 the client ends the handshake, so nothing else is there to send.
                self._tickets = self._outgoing.read()
        return True

    @property
    def has_ended(self) -> bool:
        """Return True if `read` has found the end of the connection, or its failure, after the
        bytes that it returned."""
        return self.peer_closed or self._failure is not None

    def read(self, buffer: memoryview) -> int:
        """Put plain bytes into the buffer. Return their number. If it is below the buffer's size,
        the engine has no more plain bytes until `received` is called again. A result of 0 with
        `peer_closed` is the end of all bytes.

        Raises TlsFailed, after all bytes before the failure have been returned.
        """
        if self._failure is not None:
            raise TlsFailed(self._failure)
        filled, size = 0, len(buffer)
        incoming, tls = self._incoming, self._tls
        # With a buffer, `read` returns a number. The type stubs declare bytes, the result of a call
        # without a buffer.
        read: Callable[[int, memoryview], Any] = tls.read
        try:
            # A call returns the bytes of one record: at most 16 KiB, 2 KiB from librdkafka. The
            # loop makes no call if no bytes are left: such a call raises SSLWantReadError, which
            # takes as long as a small record.
            while (
                filled < size
                and not self.peer_closed
                and (incoming.pending or incoming.eof or tls.pending())
            ):
                count = read(size - filled, buffer[filled:] if filled else buffer)
                if not count:
                    self.peer_closed = True
                filled += count
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            self.peer_closed = True
        except ssl.SSLError as error:
            self._failure = self._reason_of(error)
            if not filled:
                raise TlsFailed(self._failure) from None
        return filled

    def write(self, data: Bytes) -> None:
        """Encrypt all of the data for `outgoing`, which then has 22 bytes more for each 16 KiB.
        Drop the data if `read` has found that the peer has ended without close_notify.

        Raises TlsFailed.
        """
        if self._failure is not None:
            raise TlsFailed(self._failure)
        try:
            written, size = 0, len(data)
            while written < size:
                # A call may take a part of the data: whole records of at most 16 KiB.
                written += self._tls.write(memoryview(data)[written:] if written else data)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            pass  # OpenSSL no longer encrypts. `peer_closed` makes the caller close the connection.
        except ssl.SSLError as error:
            self._fail(self._reason_of(error))

    def outgoing(self) -> bytes:
        """Return the encrypted bytes to send, and forget them."""
        data = self._outgoing.read()
        if data and self._tickets:
            data, self._tickets = self._tickets + data, b""
        return data

    def peer_certificate(self) -> bytes | None:
        """Return the verified certificate of the peer in DER. It is None for a client without
        one."""
        return self._tls.getpeercert(binary_form=True)

    def description(self) -> tuple[str, str]:
        """Return the TLS version and the cipher suite by OpenSSL's names, once the handshake is
        complete: `("TLSv1.3", "TLS_AES_256_GCM_SHA384")`."""
        if not self.is_open:
            return "", ""
        cipher = self._tls.cipher()
        return self._tls.version() or "", cipher[0] if cipher else ""

    def close(self) -> None:
        """Add close_notify to `outgoing`: this side writes no more. It may still read."""
        if self.is_open and self._failure is None:
            # The error says that the close_notify of the peer is missing. The caller does not wait
            # for it.
            with suppress(ssl.SSLError):
                self._tls.unwrap()

    def _begin(self) -> None:
        """Begin with OpenSSL, which gets the ClientHello of a client."""
        self._tls = self._context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=self._host is None,
            server_hostname=self._host or None,
        )
        hello, self._hello = self._hello, None
        if hello is not None:
            self._incoming.write(hello.collected)
            if hello.has_ended:
                self._incoming.write_eof()

    def _reason_of(self, error: ssl.SSLError) -> str:
        return reason_of(error, is_server=self._host is None)

    def _fail(self, reason: str) -> None:
        self._failure = reason
        raise TlsFailed(reason) from None
