"""Authentication by SASL: the login of a client, and the session of a connection, which the client
renews before it ends (KIP-368)."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from oncelog_client.connect_failures import Address, ConnectCause, ConnectFailure
from oncelog_client.core.client_config import ClientConfig
from oncelog_client.core.sasl_login import password_login, token_place
from oncelog_client.errors import AuthenticationError, ConnectError, RetriableError
from oncelog_protocol.apis import api_of
from oncelog_protocol.errors import RETRIABLE, ErrorCode
from oncelog_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest
from oncelog_protocol.security.login import sasl_client
from oncelog_protocol.security.sasl_client import (
    AuthenticationFailed,
    SaslClient,
    SaslRequest,
    SaslResponse,
    authenticate,
)
from oncelog_protocol.security.scram_client import preparation

from .clock import monotonic_ms
from .randomness import fraction

if TYPE_CHECKING:
    from .token_sources import TokenSource

# The part of a session's lifetime after which the client authenticates again: from 0.85 to 0.95, so
# that the connections of a client do not do it at the same time (Kafka's SaslClientAuthenticator).
_EARLIEST_RENEWAL: Final = 0.85
_JITTER: Final = 0.10
# Sends a request after the requests in flight, and returns its response.
Call = Callable[[Any], Awaitable[Any]]


class Login:
    """The credentials of a client, for all its connections on one event loop."""

    def __init__(self, config: ClientConfig) -> None:
        """Raises ConfigError for a token endpoint that cannot be used."""
        self._password = password_login(vars(config))
        place = token_place(vars(config))
        self._tokens: TokenSource | None = None
        self._preparing = asyncio.Lock()
        if place is not None:
            from .token_sources import token_source

            self._tokens = token_source(place)

    async def close(self) -> None:
        """End the retrieval of a token."""
        if self._tokens is not None:
            await self._tokens.close()

    async def prepare(self, client: SaslClient, response: SaslResponse) -> None:
        """Run the slow part of the next step on a thread. Connections that open at the same time do
        the work once, because its result is cached."""
        work = preparation(client, response)
        if work is not None:
            async with self._preparing:
                await asyncio.to_thread(work)

    async def client(self) -> SaslClient:
        """Return the client's side of one exchange. For OAUTHBEARER, get a token first.

        Raises AuthenticationError if there is no token, or RetriableError if a retry may get it.
        """
        if self._password is not None:
            return sasl_client(self._password, os.urandom)
        assert self._tokens is not None
        from oncelog_client.core.oauth_token import OAuthTokenError
        from oncelog_protocol.security.oauthbearer_client import OAuthBearerClient

        try:
            return OAuthBearerClient(await self._tokens.token())
        except OAuthTokenError as error:
            if error.is_retriable:
                raise RetriableError(str(error), ErrorCode.NETWORK_EXCEPTION) from error
            raise AuthenticationError(str(error)) from error


async def authenticate_connection(
    address: Address, login: Login, call: Call, versions: tuple[int, int]
) -> float:
    """Authenticate a connection. `versions` are those of SaslHandshake and SaslAuthenticate.

    Return the time (ms, monotonic) at which the session must be renewed; infinity if it has no end.
    Raises AuthenticationError; ConnectError for a failure that a retry may resolve; and what `call`
    raises.
    """
    client = await _client_of(address, login)
    exchange = authenticate(client, *versions)
    try:
        request: SaslRequest = next(exchange)
        while True:
            response = await call(request)
            await login.prepare(client, response)
            request = exchange.send(response)
    except StopIteration as finished:
        return renewal_ms(finished.value)
    except AuthenticationFailed as error:
        raise refused(address, error) from None


async def _client_of(address: Address, login: Login) -> SaslClient:
    try:
        return await login.client()
    except RetriableError as error:
        failure = ConnectFailure(address, ConnectCause.FAILED, error.message)
        raise ConnectError(failure) from error


def sasl_versions(spoken: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    """Return the newest versions of SaslHandshake and SaslAuthenticate that both sides speak, -1
    for an API that the broker does not have. `spoken` are the broker's first and last versions."""
    handshake, authentication = (
        min(spoken.get(api.key, (0, -1))[1], api.latest)
        for api in map(api_of, (SaslHandshakeRequest, SaslAuthenticateRequest))
    )
    return handshake, authentication


def renewal_ms(lifetime_ms: int) -> float:
    """Return the time (ms, monotonic) at which a session that begins now must be renewed.
    `lifetime_ms` 0 is a session without an end."""
    if lifetime_ms <= 0:
        return math.inf
    return monotonic_ms() + lifetime_ms * (_EARLIEST_RENEWAL + _JITTER * fraction())


def refused(address: Address, error: AuthenticationFailed) -> AuthenticationError | ConnectError:
    """Return the exception for an error code of the broker. A retriable code means a failed
    connect."""
    if error.code in RETRIABLE:
        return ConnectError(ConnectFailure(address, ConnectCause.FAILED, str(error)))
    failure = ConnectFailure(address, ConnectCause.AUTHENTICATION_FAILED, str(error))
    return AuthenticationError(code=error.code, failures=(failure,))
