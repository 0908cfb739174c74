"""The users of a simulated etcd, and their tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tests.simulation.etcd.failures import (
    DENIED,
    INVALID_TOKEN,
    NO_LOGINS,
    NO_USER,
    WRONG_PASSWORD,
    EtcdFailure,
)

# etcd's --auth-token-ttl. Each use of a token renews it.
TOKEN_TTL_S: Final = 300.0
ROOT: Final = "root"


class _Token(NamedTuple):
    user: str
    ends_at: float


class Users:
    """Passwords by user. Without a user, every request is allowed. Only `root` may read or write
    keys."""

    def __init__(self, clock: Callable[[], float], passwords: Mapping[str, str]) -> None:
        self.token_ttl_s = TOKEN_TTL_S
        self._clock = clock
        self._passwords = passwords
        self._tokens: dict[str, _Token] = {}
        self.logins = 0

    def login(self, user: str, password: str) -> str:
        """Return a new token. Raises EtcdFailure."""
        if not self._passwords:
            raise EtcdFailure(NO_LOGINS)
        if self._passwords.get(user) != password:
            raise EtcdFailure(WRONG_PASSWORD)
        self.logins += 1
        token = f"{self.logins:016x}.{self.logins}"
        self._tokens[token] = _Token(user, self._clock() + self.token_ttl_s)
        return token

    def user_of(self, token: str | None) -> str | None:
        """Return the user, or None without a token. Raises EtcdFailure for an invalid token."""
        if not self._passwords or token is None:
            return None
        found = self._tokens.get(token)
        if found is None or found.ends_at <= self._clock():
            raise EtcdFailure(INVALID_TOKEN)
        self._tokens[token] = _Token(found.user, self._clock() + self.token_ttl_s)
        return found.user

    def check(self, token: str | None) -> None:
        """Raise EtcdFailure unless the user of the token may read and write all keys."""
        user = self.user_of(token)
        if not self._passwords:
            return
        if user is None:
            raise EtcdFailure(NO_USER)
        if user != ROOT:
            raise EtcdFailure(DENIED)

    def expire_tokens(self) -> None:
        """End all tokens, as time or a restart of etcd does."""
        self._tokens.clear()
