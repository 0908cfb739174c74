"""The causes of failed connections to brokers, as values that a program can compare. A client that
reaches no broker raises a RetriableError with these values in `failures`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

Address = tuple[str, int]


class ConnectCause(Enum):
    """The cause of a failed connect. The value is the cause's text in a message."""

    REFUSED = "connection refused"
    NO_SUCH_HOST = "no such host"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "no connection in time"
    SILENT = "accepts connections, but does not respond"
    CLOSED = "closed the connection before it responded"
    NEEDS_SASL = "closed the connection at the first request: its listener probably needs SASL"
    HTTP = "responds, but not in Kafka's protocol (HTTP)"
    SSH = "responds, but not in Kafka's protocol (SSH)"
    TLS = "responds, but not in Kafka's protocol (TLS)"
    PLAINTEXT = "responds without TLS"
    TLS_FAILED = "agrees on no TLS"
    UNTRUSTED = "has a certificate that this client does not trust"
    NOT_VALID_NOW = "has a certificate that is not valid now"
    WRONG_HOST = "has a certificate for another host"
    CERTIFICATE_REFUSED = "does not accept the certificate of this client"
    AUTHENTICATION_FAILED = "refuses the authentication of this client"
    NOT_KAFKA = "responds, but not in Kafka's protocol"
    BAD_ADDRESS = "is not an address"
    FAILED = "cannot be connected to"

    @property
    def is_lasting(self) -> bool:
        """Return True for every cause but a timeout and a silent peer: an immediate retry would
        fail too."""
        return self not in (ConnectCause.TIMED_OUT, ConnectCause.SILENT)

    @property
    def is_authentication(self) -> bool:
        """Return True if one side has refused the identity of the other side. Kafka's clients do
        not retry these failures (AuthenticationException)."""
        return self in _IDENTITY


_IDENTITY: Final = frozenset(
    {
        ConnectCause.UNTRUSTED,
        ConnectCause.NOT_VALID_NOW,
        ConnectCause.WRONG_HOST,
        ConnectCause.CERTIFICATE_REFUSED,
        ConnectCause.AUTHENTICATION_FAILED,
    }
)


class ConnectFailure(NamedTuple):
    """A failed connect. `address` is (host, port). `detail` is the text of the system or the peer,
    and may be empty."""

    address: Address
    cause: ConnectCause
    detail: str = ""

    def __str__(self) -> str:
        if self.cause is ConnectCause.NO_SUCH_HOST:
            text = f"no such host: {self.address[0]}"
        else:
            text = f"{shown(self.address)}: {self.cause.value}"
        return f"{text} ({self.detail})" if self.detail else text


def shown(address: Address) -> str:
    """Return an address as host:port, with an IPv6 host in brackets. Metadata may hold any host, so
    characters that cannot be printed are escaped."""
    host, port = address
    host = "".join(c if c.isprintable() else repr(c)[1:-1] for c in host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def described(failures: Iterable[ConnectFailure]) -> str:
    """Return one sentence for several failures, without repetitions."""
    return "; ".join(dict.fromkeys(map(str, failures)))


FIRST_BYTES: Final = 4
"""Number of first bytes that show whether a peer speaks Kafka's protocol. In Kafka's protocol these
bytes are the size of the first frame."""

_OTHERS: Final[dict[bytes, ConnectCause]] = {
    b"HTTP": ConnectCause.HTTP,
    b"<htm": ConnectCause.HTTP,
    b"<HTM": ConnectCause.HTTP,
    b"<!DO": ConnectCause.HTTP,
    b"<!do": ConnectCause.HTTP,
    b"SSH-": ConnectCause.SSH,
}
# Content types of TLS records: change_cipher_spec, alert, handshake. The major version 3 follows.
_TLS_TYPES: Final = (0x14, 0x15, 0x16)
_TLS_MAJOR: Final = 3
# Plausible sizes of a response to ApiVersions: at least a correlation id and an error code. The
# maximum is generous: a response has some hundred rows of about six bytes.
_LEAST_RESPONSE: Final = 6
_MOST_RESPONSE: Final = 1 << 20


def foreign_protocol(first: bytes) -> ConnectCause | None:
    """Return the peer's protocol, by the first bytes of its response to ApiVersions (at least
    FIRST_BYTES). Return None for Kafka's protocol."""
    known = _OTHERS.get(first[:FIRST_BYTES])
    if known is not None:
        return known
    if first[0] in _TLS_TYPES and first[1] == _TLS_MAJOR:
        return ConnectCause.TLS
    size = int.from_bytes(first[:FIRST_BYTES], "big", signed=True)
    return None if _LEAST_RESPONSE <= size <= _MOST_RESPONSE else ConnectCause.NOT_KAFKA
