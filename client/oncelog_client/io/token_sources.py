"""The sources of a client's bearer tokens: a callback of the application, a file, or client
credentials. Each client has its own source, which belongs to the client's event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from oncelog_client.core.backoff import Backoff
from oncelog_client.core.client_credentials import (
    ClientCredentials,
    read_response,
    request_body,
    request_headers,
)
from oncelog_client.core.oauth_token import (
    AccessToken,
    OAuthTokenError,
    RefreshWindow,
    access_token,
    token_of_callback,
)
from oncelog_client.core.sasl_login import TokenPlace
from oncelog_protocol.secret import Secret

from .clock import monotonic_ms, wall_ms
from .randomness import fraction

if TYPE_CHECKING:
    from .token_endpoint import TokenEndpoint

MOST_FILE_BYTES: Final = 1024 * 1024
# Pause after a failed refresh while the old token is still valid, as in Kafka.
RETRY_MS: Final = 10_000
# Kafka's defaults of `sasl.login.retry.backoff.ms` and `sasl.login.retry.backoff.max.ms`.
LOGIN_BACKOFF: Final = Backoff(100, 10_000)
WINDOW: Final = RefreshWindow()
# Maximum wait for the end of a cancelled retrieval.
_END_S: Final = 1.0

Retrieve = Callable[[], Awaitable[AccessToken]]
TokenCallback = Callable[[], object]


class TokenSource(Protocol):
    async def token(self) -> Secret:
        """Return a token that has not expired. Raises OAuthTokenError."""
        ...

    async def close(self) -> None:
        """End the retrieval of a token. Callers of `token` get an OAuthTokenError."""
        ...


class RefreshingTokens:
    """A source that retrieves a token, and replaces it ahead of its end.

    The first connection that needs a token in the refresh window retrieves a new one. If that
    fails, the old token serves until its end. Concurrent calls share one retrieval.
    """

    def __init__(
        self,
        retrieve: Retrieve,
        window: RefreshWindow = WINDOW,
        now_ms: Callable[[], int] = wall_ms,
        randomness: Callable[[], float] = fraction,
    ) -> None:
        self._retrieve = retrieve
        self._window = window
        self._now_ms = now_ms
        self._randomness = randomness
        self._known: AccessToken | None = None
        self._refresh_ms: int | None = None
        self._retrieving: asyncio.Task[AccessToken] | None = None

    async def token(self) -> Secret:
        """Return a token that has not expired. Raises OAuthTokenError."""
        now_ms, known = self._now_ms(), self._known
        if known is not None and (self._refresh_ms is None or now_ms < self._refresh_ms):
            return known.token
        if self._retrieving is None:
            self._retrieving = asyncio.get_running_loop().create_task(self._replace())
            self._retrieving.add_done_callback(self._retrieved)
        retrieving = self._retrieving
        try:
            # The cancellation of a caller must not end the retrieval for other callers.
            return (await asyncio.shield(retrieving)).token
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if not retrieving.cancelled() or (caller is not None and caller.cancelling()):
                raise
            raise OAuthTokenError("the client was closed") from None
        except OAuthTokenError:
            if known is None or known.has_expired(self._now_ms()):
                raise
            self._refresh_ms = self._now_ms() + RETRY_MS
            return known.token

    async def close(self) -> None:
        """End the retrieval of a token. Callers of `token` get an OAuthTokenError. A callback that
        catches the CancelledError may work on after `_END_S`."""
        if self._retrieving is not None:
            self._retrieving.cancel()
            await asyncio.wait({self._retrieving}, timeout=_END_S)

    async def _replace(self) -> AccessToken:
        found = await self._retrieve()
        now_ms = self._now_ms()
        if found.has_expired(now_ms):
            raise OAuthTokenError(
                f"the new OAuth token has expired already: expiry {found.expires_ms} ms, clock of"
                f" this computer {now_ms} ms"
            )
        self._known = found
        self._refresh_ms = self._window.refresh_ms(found, now_ms, self._randomness())
        return found

    def _retrieved(self, task: asyncio.Task[AccessToken]) -> None:
        self._retrieving = None
        if not task.cancelled():
            # The callers get the error. This call marks it as retrieved, in case all callers were
            # cancelled.
            task.exception()


class FileTokens:
    """A token in a file, which another program replaces. It is read at each connection."""

    def __init__(self, path: Path, now_ms: Callable[[], int] = wall_ms) -> None:
        self._path = path
        self._now_ms = now_ms

    async def token(self) -> Secret:
        """Return the token in the file. Raises OAuthTokenError, which names the file."""
        try:
            text = await asyncio.to_thread(self._read)
        except (OSError, ValueError) as error:
            # The text of a UnicodeError has bytes of the file.
            reason = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
            raise OAuthTokenError(f"the token file {self._path}: {reason}") from None
        if not text.strip():
            raise OAuthTokenError(f"the token file {self._path} is empty")
        found = access_token(text)
        if found.has_expired(self._now_ms()):
            raise OAuthTokenError(f"the token in the file {self._path} has expired")
        return found.token

    async def close(self) -> None:
        """Do nothing: each call of `token` reads the file itself."""

    def _read(self) -> str:
        with self._path.open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
        if len(data) > MOST_FILE_BYTES:
            raise OSError(0, f"it has more than {MOST_FILE_BYTES} bytes")
        return data.decode("ascii")


def callback_tokens(callback: TokenCallback, window: RefreshWindow = WINDOW) -> RefreshingTokens:
    """Return the source for a callback of the application. `callback` returns a token, or a pair of
    the token and its expiry (seconds since the epoch). It may be a coroutine function. Any other
    function runs in a thread. An exception of the callback becomes an OAuthTokenError."""

    async def retrieve() -> AccessToken:
        try:
            if inspect.iscoroutinefunction(callback):
                value = await callback()
            else:
                value = await asyncio.to_thread(callback)
                if inspect.isawaitable(value):
                    value = await value
        except Exception as error:
            # The text of an unknown error may contain a secret. The cause stays for the debugger.
            raise OAuthTokenError(
                f"the OAuth callback failed with {type(error).__name__}", is_retriable=True
            ) from error
        return token_of_callback(value)

    return RefreshingTokens(retrieve, window)


def client_credentials_tokens(
    endpoint: TokenEndpoint,
    credentials: ClientCredentials,
    window: RefreshWindow = WINDOW,
    backoff: Backoff = LOGIN_BACKOFF,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> RefreshingTokens:
    """Return the source of tokens for client credentials. A retriable failure is retried until
    `backoff.max_ms` have passed, as in Kafka; `sleep` waits a number of seconds."""

    async def retrieve() -> AccessToken:
        headers, body = request_headers(credentials), request_body(credentials)
        end_ms, failures = monotonic_ms() + backoff.max_ms, 0
        while True:
            try:
                response = await asyncio.to_thread(endpoint.post, headers, body)
                return read_response(response.status, response.body, wall_ms())
            except OAuthTokenError as error:
                failures += 1
                left_ms = end_ms - monotonic_ms()
                if not error.is_retriable or left_ms <= 0:
                    raise
                wait_ms = min(backoff.delay_ms(failures, fraction()), left_ms)
                await sleep(wait_ms / 1000)

    return RefreshingTokens(retrieve, window)


def token_source(place: TokenPlace) -> TokenSource:
    """Return the source of a client's settings. Raises ConfigError for an unusable URL."""
    if place.callback is not None:
        return callback_tokens(place.callback)
    if place.credentials is None:
        return FileTokens(_path_of(place.url))
    from .token_endpoint import TokenEndpoint

    return client_credentials_tokens(TokenEndpoint(place.url), place.credentials)


def _path_of(url: str) -> Path:
    """Return the path of a `file:` URL."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    return Path(url2pathname(urlsplit(url).path))
