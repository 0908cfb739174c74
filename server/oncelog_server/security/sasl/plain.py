"""The broker's side of PLAIN (RFC 4616), with the messages of Kafka's PlainSaslServer.

The users are options `user_<name>="<password>"` of the listener's JAAS configuration. The time of
an exchange depends neither on the passwords, nor on the existence of the user.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from oncelog_protocol.secret import Secret
from oncelog_server.security.resources import Principal
from oncelog_server.security.sasl.exchange import SHOWN, Authenticated, AuthenticationRefused

_TOKENS: Final = 3
_HASH: Final = "sha256"


class PlainUsers:
    """The users of a listener. `server_secret` is the key of the hashes that are compared in place
    of the passwords, because a comparison of texts shows their length."""

    __slots__ = ("_hashes", "_secret")

    def __init__(self, passwords: Mapping[str, Secret], server_secret: bytes) -> None:
        self._secret = server_secret
        self._hashes = {
            name.encode(): self._hash(password.reveal().encode())
            for name, password in passwords.items()
        }

    def __contains__(self, username: bytes) -> bool:
        return username in self._hashes

    def knows(self, username: bytes, password: bytes) -> bool:
        """Return True if the user exists and has this password."""
        stored = self._hashes.get(username)
        # An unknown user costs the same hash and the same comparison.
        same = hmac.compare_digest(self._hash(password), stored or bytes(32))
        return same and stored is not None

    def _hash(self, password: bytes) -> bytes:
        return hmac.digest(self._secret, password, _HASH)


class PlainExchange:
    """The exchange of a single token: authorization id, name and password."""

    __slots__ = ("_users",)

    def __init__(self, users: PlainUsers) -> None:
        self._users = users

    def evaluate(self, token: bytes) -> Authenticated:
        """Judge the token. Raises AuthenticationRefused with Kafka's message."""
        tokens = token.split(b"\0", _TOKENS)
        if len(tokens) != _TOKENS:
            raise AuthenticationRefused(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}"
            )
        authorization_id, username, password = tokens
        if not username:
            raise AuthenticationRefused("Authentication failed: username not specified")
        if not password:
            raise AuthenticationRefused("Authentication failed: password not specified")
        if not self._users.knows(username, password):
            raise AuthenticationRefused(
                "Authentication failed: Invalid username or password", self._reason(username)
            )
        if authorization_id and authorization_id != username:
            raise AuthenticationRefused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        return Authenticated(b"", Principal("User", username.decode()))

    def _reason(self, username: bytes) -> str:
        shown = username[:SHOWN].decode(errors="replace")
        return f"{'wrong password' if username in self._users else 'unknown user'}: {shown!r}"
