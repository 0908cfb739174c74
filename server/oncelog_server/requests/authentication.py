"""Authentication by SASL on one connection: a state machine between its frames and the handlers.

Before COMPLETE, a connection serves the requests of EXPECTED and no others. Each response parks the
connection, so that the next frame meets the new state. The states, the responses and their messages
are those of Kafka's SaslServerAuthenticator (KIP-43, KIP-152, KIP-306, KIP-368).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.codecs import decode, encoder
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.frames import frame as framed
from oncelog_protocol.headers import RequestHeader, read_request_header, response_header
from oncelog_protocol.messages.api_versions import ApiVersionsResponse
from oncelog_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_server.deferred import Deferred, pass_on, then_ask
from oncelog_server.requests.response import EncodedResponse, Parts, Serve
from oncelog_server.requests.session import Session
from oncelog_server.security.resources import Principal
from oncelog_server.security.sasl.exchange import (
    SHOWN,
    Authenticated,
    AuthenticationRefused,
    Challenge,
    SaslExchange,
)
from oncelog_server.timers import Timers

# A client may authenticate again once in this time. Kafka's MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS.
REAUTHENTICATION_MS: Final = 1_000


class State(StrEnum):
    START = "start"
    VERSIONS_SENT = "versions sent"
    # SaslHandshake v1 and later: a token is a SaslAuthenticate request.
    TOKENS = "tokens"
    # SaslHandshake v0: a token is a frame without a header.
    BARE_TOKENS = "bare tokens"
    # The client wants to authenticate again with another mechanism.
    OTHER_MECHANISM = "other mechanism"
    COMPLETE = "complete"
    FAILED = "failed"


# The requests of each state. A request without a row ends the connection. In COMPLETE, all other
# requests go to the handlers.
EXPECTED: Final[frozenset[tuple[State, int]]] = frozenset(
    {
        (State.START, ApiKey.API_VERSIONS),
        (State.START, ApiKey.SASL_HANDSHAKE),
        (State.VERSIONS_SENT, ApiKey.SASL_HANDSHAKE),
        (State.TOKENS, ApiKey.SASL_AUTHENTICATE),
        (State.OTHER_MECHANISM, ApiKey.SASL_AUTHENTICATE),
        (State.COMPLETE, ApiKey.SASL_HANDSHAKE),
    }
)
# The responses to requests of authentication that come in the wrong state. Other APIs get none,
# because their requests are not decoded before authentication.
_ILLEGAL: Final[Mapping[int, Any]] = {
    ApiKey.API_VERSIONS: ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
    ApiKey.SASL_HANDSHAKE: SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
}
# The position of the error code in a response to ApiVersions: after the size and correlation id.
_ERROR_CODE: Final = slice(8, 10)
_KEY: Final = slice(0, 2)


class SaslRules(msgspec.Struct, frozen=True):
    """The SASL of one listener. `exchanges` makes the exchange of each enabled mechanism, in the
    order of the setting; its argument is True for a re-authentication. `max_reauth_ms` has the
    mechanisms with sessions that expire."""

    exchanges: Mapping[SaslMechanism, Callable[[bool], SaslExchange]]
    max_reauth_ms: Mapping[SaslMechanism, int]
    failure_delay_ms: int
    wall_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]
    timers: Timers


class Peer(Protocol):
    """The connection that authenticates."""

    def served_by(self, serve: Serve) -> None:
        """Serve all further frames by `serve`."""
        ...

    def authenticated(self, principal: Principal, serve: Serve) -> None:
        """Begin the session of this principal. Serve all further frames by `serve`."""
        ...

    def refused(self, reason: str) -> None:
        """Log and count that the client is refused."""
        ...

    def drain(self) -> None:
        """Close the connection when the sent responses have left."""
        ...

    def session_expired(self) -> None:
        """Count a session that the client did not renew. An error then closes the connection."""
        ...


class Authentication:
    """The authentications of one connection, the first and further ones. `serve` is the dispatcher,
    which serves ApiVersions, and everything after COMPLETE."""

    def __init__(self, rules: SaslRules, peer: Peer, serve: Serve) -> None:
        self.state = State.START
        self._rules = rules
        self._peer = peer
        self._dispatch = serve
        self._exchange: SaslExchange | None = None
        self._mechanism: SaslMechanism | None = None
        self._principal: Principal | None = None
        self._expires_ms: int | None = None
        self._begun_ms: int | None = None
        # True after a challenge that refuses the client. The refusal is then logged already,
        # because the client may close the connection and not respond.
        self._is_refused = False

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        """Serve a frame before COMPLETE. Raises ProtocolError for a frame that is no request."""
        if self.state is State.BARE_TOKENS:
            return self._on_token(bytes(frame), None)
        header, position = read_request_header(frame)
        key = header.api_key
        if (self.state, key) not in EXPECTED:
            return self._illegal(header)
        if key == ApiKey.API_VERSIONS:
            return then_ask(self._dispatch(frame, session) or [], self._on_versions)
        version = header.api_version
        if version not in APIS[key].versions:
            raise ProtocolError(f"{APIS[key].name} v{version} is not supported")
        request = decode(APIS[key].request, version, frame[position:])
        if key == ApiKey.SASL_HANDSHAKE:
            return self._on_handshake(request, header)
        return self._on_authenticate(request, header)

    def serve_until_expiry(self, frame: memoryview, session: Session) -> EncodedResponse:
        """Serve a frame of a session that expires. Raises ProtocolError if it has expired, unless
        the client authenticates again (KIP-368)."""
        now_ms = self._rules.monotonic_ms()
        if int.from_bytes(frame[_KEY], "big") == ApiKey.SASL_HANDSHAKE:
            begun_ms = self._begun_ms
            if begun_ms is None or now_ms - begun_ms >= REAUTHENTICATION_MS:
                self._begun_ms = now_ms
                self._peer.served_by(self.serve)
                return self.serve(frame, session)
        elif self._expires_ms is not None and now_ms >= self._expires_ms:
            self._peer.session_expired()
            raise ProtocolError("the session has expired, and the client did not renew it")
        return self._dispatch(frame, session)

    # --- the requests

    def _on_versions(self, parts: Parts) -> Parts | Deferred[Parts]:
        """Send the response of the handler. A client may repeat a request that was refused."""
        whole = b"".join(parts)  # type: ignore[arg-type]  # bytes: only Fetch has file ranges
        if whole[_ERROR_CODE] == bytes(2):
            self.state = State.VERSIONS_SENT
        return self._respond([whole])

    def _on_handshake(
        self, request: SaslHandshakeRequest, header: RequestHeader
    ) -> Deferred[Parts]:
        enabled = self._rules.exchanges
        names = [mechanism.value for mechanism in enabled]
        if request.mechanism not in names:
            refused = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, names)
            reason = f"the SASL mechanism {request.mechanism[:SHOWN]!r} is not enabled"
            return self._fail(_encoded(header, refused), reason)
        mechanism = SaslMechanism(request.mechanism)
        if self._mechanism is not None and mechanism is not self._mechanism:
            self.state = State.OTHER_MECHANISM
        else:
            self.state = State.TOKENS if header.api_version else State.BARE_TOKENS
            self._exchange = enabled[mechanism](self._principal is not None)
            if self._principal is None:
                self._mechanism = mechanism
        return self._respond(_encoded(header, SaslHandshakeResponse(ErrorCode.NONE, names)))

    def _on_authenticate(
        self, request: SaslAuthenticateRequest, header: RequestHeader
    ) -> EncodedResponse:
        if self.state is State.OTHER_MECHANISM:
            message = f"the SASL mechanism of a re-authentication must be {self._mechanism}"
            return self._refuse(header, AuthenticationRefused(message))
        return self._on_token(bytes(request.auth_bytes), header)

    def _on_token(self, token: bytes, header: RequestHeader | None) -> EncodedResponse:
        """Pass a token to the mechanism. `header` is None if the token is bare."""
        assert self._exchange is not None
        try:
            evaluation = self._exchange.evaluate(token)
        except AuthenticationRefused as refused:
            return self._refuse(header, refused)
        if not isinstance(evaluation, Deferred):
            return self._on_evaluation(evaluation, header)
        later: Deferred[Parts] = Deferred()
        evaluation.on_complete(lambda value: pass_on(self._on_evaluation(value, header), later))
        evaluation.on_abandon(lambda: self._on_abandoned(evaluation.failure, header, later))
        later.on_cancel(evaluation.cancel)
        return later

    def _on_abandoned(
        self, failure: Exception | None, header: RequestHeader | None, later: Deferred[Parts]
    ) -> None:
        if isinstance(failure, AuthenticationRefused):
            pass_on(self._refuse(header, failure), later)
        else:
            later.abandon(failure)

    def _on_evaluation(
        self, evaluation: Challenge | Authenticated, header: RequestHeader | None
    ) -> Deferred[Parts]:
        if isinstance(evaluation, Challenge):
            if evaluation.refusal:
                self._is_refused = True
                self._peer.refused(evaluation.refusal)
            return self._respond(_with_token(header, evaluation.token))
        principal = evaluation.principal
        if self._principal is not None and principal != self._principal:
            before, name = self._principal, principal.name[:SHOWN]
            message = (
                "Cannot change principals during re-authentication from "
                f"{before.type}.{before.name[:SHOWN]}: {principal.type}.{name}"
            )
            return self._refuse(header, AuthenticationRefused(message))
        self.state = State.COMPLETE
        self._exchange = None
        self._principal = principal
        lifetime_ms = self._lifetime_ms(evaluation.expires_ms)
        if lifetime_ms is None:
            self._expires_ms = None
            serve: Serve = self._dispatch
        else:
            self._expires_ms = self._rules.monotonic_ms() + lifetime_ms
            serve = self.serve_until_expiry
        parts = _with_token(header, evaluation.token, lifetime_ms or 0)
        return self._respond(parts, lambda: self._peer.authenticated(principal, serve))

    def _lifetime_ms(self, expires_ms: int | None) -> int | None:
        """Return the time until the session expires: the setting or the rest of the credential's
        own lifetime, whichever is shorter. Return None if the session does not expire."""
        assert self._mechanism is not None
        limits = []
        if expires_ms is not None:
            limits.append(max(expires_ms - self._rules.wall_ms(), 0))
        if self._mechanism in self._rules.max_reauth_ms:
            limits.append(self._rules.max_reauth_ms[self._mechanism])
        return min(limits, default=None)

    # --- the responses

    def _illegal(self, header: RequestHeader) -> Deferred[Parts]:
        api = APIS.get(header.api_key)
        name = str(header.api_key) if api is None else api.name
        reason = f"an unexpected request {name} during SASL authentication"
        parts: Parts = []
        message = _ILLEGAL.get(header.api_key)
        if api is not None and message is not None and header.api_version in api.versions:
            parts = _encoded(header, message)
        return self._fail(parts, reason)

    def _refuse(
        self, header: RequestHeader | None, refused: AuthenticationRefused
    ) -> Deferred[Parts]:
        parts: Parts = []
        if header is not None:
            response = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, str(refused))
            parts = _encoded(header, response)
        return self._fail(parts, refused.reason)

    def _fail(self, parts: Parts, reason: str) -> Deferred[Parts]:
        """Log the failure. Respond and close after the delay of KIP-306.

        A failure that is logged after the delay would stay unknown if the client closes earlier, so
        passwords could be guessed without a log event."""
        self.state = State.FAILED
        if not self._is_refused:
            self._peer.refused(reason)
        later: Deferred[Parts] = Deferred()

        def end() -> None:
            later.complete(parts)
            self._peer.drain()

        timer = self._rules.timers.call_later(self._rules.failure_delay_ms, end)
        later.on_cancel(timer.cancel)
        return later

    def _respond(self, parts: Parts, before: Callable[[], None] = lambda: None) -> Deferred[Parts]:
        """Respond in the next turn of the loop, after a call of `before`."""
        later: Deferred[Parts] = Deferred()

        def respond() -> None:
            if not later.cancelled:
                before()
                later.complete(parts)

        self._rules.timers.call_soon(respond)
        return later


def _with_token(header: RequestHeader | None, token: bytes, lifetime_ms: int = 0) -> Parts:
    """Return the response with a token of the broker. `header` is None for a bare token."""
    if header is None:
        return framed([token])
    response = SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)
    return _encoded(header, response)


def _encoded(header: RequestHeader, response: Any) -> Parts:
    version = header.api_version
    parts: list[Any] = [response_header(header.api_key, version, header.correlation_id)]
    encoder(type(response), version)(response, parts.append)
    return [b"".join(framed(parts))]
