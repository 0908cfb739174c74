"""The login at etcd, and the token that each request carries. Tokens expire."""

from __future__ import annotations

from typing import NamedTuple

from oncelog_protocol.secret import Secret
from oncelog_server.etcd.exchange import exchange
from oncelog_server.etcd.members import Member
from oncelog_server.etcd_gateway.requests import AUTHENTICATE, login_body
from oncelog_server.etcd_gateway.responses import LoginResponse, decoded


class Login(NamedTuple):
    name: str
    password: Secret


class Session:
    """The broker's login, and its present token. If `login` is None, requests have no token."""

    def __init__(self, login: Login | None) -> None:
        self._login = login
        self._token: str | None = None

    async def headers(self, member: Member) -> dict[str, str]:
        """Return the headers of a request. Log in at `member` if there is no token. Raises
        OSError."""
        if self._login is None:
            return {}
        if self._token is None:
            body = login_body(self._login.name, self._login.password.reveal())
            response = await exchange(member, AUTHENTICATE, {}, body)
            self._token = decoded(LoginResponse, response).token
        return {"Authorization": self._token}

    def renew(self) -> bool:
        """Drop the token, because it is not valid. Return False if the broker does not log in."""
        self._token = None
        return self._login is not None
