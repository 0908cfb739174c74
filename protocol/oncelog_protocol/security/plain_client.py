"""The client's side of PLAIN (RFC 4616): a single token with the name and the password.

The token holds the password itself, so PLAIN needs TLS.
"""

from __future__ import annotations

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.sasl_client import SaslClientError, sendable


class PlainClient:
    """The exchange of a name and a password. The authorization id stays empty, as in Kafka."""

    __slots__ = ("_password", "_sent", "_username", "mechanism")

    def __init__(self, username: str, password: Secret) -> None:
        self.mechanism = SaslMechanism.PLAIN
        self._username = username
        self._password = password
        self._sent = False

    @property
    def is_complete(self) -> bool:
        return self._sent

    def first(self) -> bytes:
        """Return the only token. Raises SaslClientError for an empty name or password, and for
        text that the token cannot hold."""
        username = sendable("user name", self._username)
        password = sendable("password", self._password.reveal())
        # A broker refuses both, with a message that does not name the client's setting.
        if not username or not password:
            raise SaslClientError("the user name and the password must not be empty")
        self._sent = True
        return b"\0%b\0%b" % (username, password)

    def next(self, challenge: bytes) -> bytes | None:
        """Raise SaslClientError, because the mechanism has a single token."""
        raise SaslClientError("a token of the broker after the last token")
