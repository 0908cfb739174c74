"""Route requests by API key and version to decoder, handler and encoder.

The declarations of the handlers (`API`, `versions`, `handle`) make the routes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from oncelog_protocol.apis import APIS, ApiKey, request_header_version, response_header_version
from oncelog_protocol.codecs import (
    Decoder,
    Encoder,
    decoder,
    encoder,
    sliced_decoder,
    sliced_encoder,
)
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.headers import REQUEST_START, read_client_id
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, pass_on, then_ask
from oncelog_server.log.results import FileRange
from oncelog_server.request_limits import max_elements
from oncelog_server.requests.frame_reader import SHARED_BYTES
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.requests.request_meter import RequestMeter
from oncelog_server.requests.response import EncodedResponse, Part, Parts, RequestFailed
from oncelog_server.requests.session import Session
from oncelog_server.slices import SMALL, Steps, within

if TYPE_CHECKING:
    from oncelog_server.requests.error_counts import ErrorCounts

# Larger requests are decoded in slices: this many bytes take one or two milliseconds.
SLICED_BYTES: Final = 64 << 10
# Number of parts of a large response that are joined at a time.
_JOINED: Final = 4_096
# Length and correlation id. A response header v1 has the number of tagged fields too.
_HEAD: Final = struct.Struct(">ii")
_FLEXIBLE_HEAD: Final = struct.Struct(">iib")
_LOGGED_CLIENT_ID: Final = 100

# Returns the response, the Deferred of it, None (acks=0), or a generator that is run in slices.
Handle = Callable[[BrokerServices, RequestContext, Any], Any]


class Handler(Protocol):
    """The declarations of a module in `handlers`.

    An implementation may delay the import of the module until the first use of `handle`.
    """

    API: ApiKey
    versions: range

    @property
    def handle(self) -> Handle: ...


class _Route:
    """An API in one version, ready to serve."""

    __slots__ = (
        "count",
        "decode",
        "encode",
        "handle",
        "is_request_header_flexible",
        "is_response_header_flexible",
        "keeps_parts",
        "key",
        "max_elements",
        "metered",
        "version",
    )

    def __init__(self, key: int, version: int, handle: Handle, max_partitions: int) -> None:
        api = APIS[key]
        self.key = key
        self.version = version
        # Number of requests since the start of the broker.
        self.count = 0
        self.handle = handle
        # A Fetch response contains file ranges, which the outbox sends as they are.
        self.keeps_parts = key == ApiKey.FETCH
        self.is_request_header_flexible = request_header_version(key, version) > 1
        self.is_response_header_flexible = response_header_version(key, version) > 0
        self.max_elements = max_elements(key, max_partitions)
        self.decode: Decoder[Any] = decoder(api.request, version)
        self.encode: Encoder[Any] = encoder(api.response, version)
        # The same route with a handler that counts its requests against quotas, None until a quota
        # is defined.
        self.metered: _Route | None = None


class Dispatch:
    """Serves the frames of requests.

    A request that cannot be decoded, or with a version that was not advertised, closes its
    connection. ApiVersions in an unknown version gets a response in version 0 (KIP-511). The error
    codes of responses are counted if `errors` is not None.
    """

    def __init__(
        self,
        services: BrokerServices,
        handlers: Iterable[Handler],
        errors: ErrorCounts | None = None,
    ) -> None:
        self._services = services
        self._errors = errors
        self._authorizer = services.authorizer
        self._quotas = services.quotas
        self._handlers: dict[int, Handler] = {}
        for handler in handlers:
            if handler.API in self._handlers:
                raise ValueError(f"two handlers for {handler.API.name}")
            self._handlers[handler.API] = handler
        # Routes are made at first use: generating all codecs would cost 120 ms at every start.
        self._routes: dict[tuple[int, int], _Route] = {}
        services.versions = {key: handler.versions for key, handler in self._handlers.items()}

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        """Return the response's parts, the Deferred of them, or None if there is no response.

        Raises ProtocolError if the connection must be closed.
        """
        try:
            key, version, correlation_id, size = REQUEST_START.unpack_from(frame)
        except struct.error:
            raise ProtocolError(f"a request of {len(frame)} bytes") from None
        route = self._routes.get((key, version)) or self._route(key, version)
        if route is None:
            return self._unsupported_version(
                RequestContext(session, self._authorizer, key, version, correlation_id, "")
            )
        client_id, position = read_client_id(
            frame, REQUEST_START.size, size, is_flexible=route.is_request_header_flexible
        )
        context = RequestContext(
            session, self._authorizer, key, version, correlation_id, client_id or ""
        )
        if self._quotas.is_enforced and session.is_established:
            route = self._metered(route, context, len(frame))
        # Bytes after the request are ignored, as by Kafka: librdkafka leaves three of them after
        # a Metadata request for all topics in a flexible version.
        if len(frame) > SLICED_BYTES:
            return self._serve_large(route, context, frame, position)
        request, _ = route.decode(frame, position, route.max_elements)
        return self._serve(route, context, request)

    def _serve(self, route: _Route, context: RequestContext, request: Any) -> EncodedResponse:
        route.count += 1
        try:
            response = route.handle(self._services, context, request)
            if response is None:
                return None
            if type(response) is GeneratorType:
                return self._in_slices(route, context, response)
            if not isinstance(response, Deferred):
                return _encode(route, context.correlation_id, response)
        except ProtocolError:
            raise
        except Exception as failure:
            raise _failed(context) from failure
        return self._encode_later(route, context, response)

    def _metered(self, route: _Route, context: RequestContext, size: int) -> _Route:
        """Return the route of a request that counts against the quotas of its client."""
        context.meter = RequestMeter(
            self._quotas,
            self._services.clock.monotonic_ns,
            route.key,
            context.session.principal.name,
            context.client_id,
            size,
            context.session.mute,
        )
        if route.metered is None:
            route.metered = copy(route)
            route.metered.handle = _metered(route.handle)
        route.count += 1
        return route.metered

    def _encode_later(
        self, route: _Route, context: RequestContext, response: Deferred[Any]
    ) -> Deferred[Parts]:
        """Encode a response when it is complete.

        A failure, also of the encoder, names the request and fails only this request.
        """

        def encoded(value: Any) -> Parts | Deferred[Parts]:
            if value is None:
                return []
            if type(value) is GeneratorType:
                return self._in_slices(route, context, value)
            return _encode(route, context.correlation_id, value)

        return _named(context, response, encoded)

    def _serve_large(
        self, route: _Route, context: RequestContext, frame: memoryview, position: int
    ) -> EncodedResponse:
        """Decode a large request in slices, and serve it.

        A Produce with large records but few partitions is decoded at once.
        """
        decoding = sliced_decoder(APIS[route.key].request, route.version)
        if route.key == ApiKey.PRODUCE:
            few = within(SMALL, decoding(frame, position, route.max_elements))
            if few is not None:
                return self._serve(route, context, few[0])
        context.keeps_frame = True
        decoded = self._services.slices.run(decoding(_kept(frame), position, route.max_elements))
        return then_ask(decoded, lambda found: self._answer(route, context, found[0]))

    def _answer(
        self, route: _Route, context: RequestContext, request: Any
    ) -> Parts | Deferred[Parts]:
        if context.meter is not None:
            context.meter.begin()
        answer = self._serve(route, context, request)
        # There is no response for acks=0, or for an EndTxn of a client that has closed its
        # connection.
        return [] if answer is None else answer

    def _in_slices(
        self, route: _Route, context: RequestContext, steps: Steps[Any]
    ) -> Parts | Deferred[Parts]:
        """Run a large request and encode its response, in short slices. A cancel of the result
        cancels the work that has not ended, such as the wait of a Fetch for records."""
        slices = self._services.slices

        def worked(value: Any) -> Parts | Deferred[Parts]:
            """Encode the result, which may be a generator or deferred."""
            if type(value) is GeneratorType:
                return then_ask(slices.run(value), worked, cancels=True)
            if isinstance(value, Deferred):
                return then_ask(value, worked, cancels=True)
            if value is None:
                return []
            return slices.run(_encode_in_slices(route, context.correlation_id, value, self._errors))

        answer = then_ask(slices.run(steps), worked, cancels=True)
        return _named(context, answer) if isinstance(answer, Deferred) else answer

    def counts(self) -> Iterator[tuple[str, int, int]]:
        """Yield (API's name, version, number of requests since the start)."""
        for (key, version), route in list(self._routes.items()):
            yield APIS[key].name, version, route.count

    def _route(self, key: int, version: int) -> _Route | None:
        """Return the route, which is built at its first use.

        Return None for ApiVersions in an unknown version. Raises ProtocolError for any other
        unknown API or version.
        """
        handler = self._handlers.get(key)
        if handler is None:
            raise ProtocolError(f"unknown API {key}")
        if version not in handler.versions:
            if key == ApiKey.API_VERSIONS:
                return None
            raise ProtocolError(f"{ApiKey(key).name} v{version} is not supported")
        most = self._services.settings.oncelog_max_partitions
        route = self._routes[key, version] = _Route(key, version, handler.handle, most)
        if self._errors is not None:
            message = APIS[key].response
            route.encode = self._errors.counting(key, version, message, route.encode)
        return route

    def error_counts(self) -> Iterator[tuple[str, int, int]]:
        """Yield (API's name, error code, number of codes in responses since the start)."""
        if self._errors is not None:
            for (key, code), count in sorted(self._errors.counts.items()):
                yield APIS[key].name, code, count

    def _unsupported_version(self, context: RequestContext) -> Parts:
        handler = self._handlers[ApiKey.API_VERSIONS]
        response = handler.handle(self._services, context, None)
        route = self._route(ApiKey.API_VERSIONS, 0)
        assert route is not None
        return _encode(route, context.correlation_id, response)


def _metered(handle: Handle) -> Handle:
    """Return a handler that counts its requests against the quotas of their clients."""

    def metered(services: BrokerServices, context: RequestContext, request: Any) -> Any:
        assert context.meter is not None
        return context.meter.handled(handle(services, context, request))

    return metered


def _kept(frame: memoryview) -> memoryview:
    """Return the frame in its own memory: a copy if it is in the connections' shared buffer."""
    return memoryview(bytearray(frame)) if len(frame) <= SHARED_BYTES else frame


def _failed(context: RequestContext) -> RequestFailed:
    return RequestFailed(
        api=APIS[context.api_key].name,
        version=context.api_version,
        client_id=context.client_id[:_LOGGED_CLIENT_ID],
    )


def _named(
    context: RequestContext,
    response: Deferred[Any],
    change: Callable[[Any], Parts | Deferred[Parts]] = lambda parts: cast("Parts", parts),
) -> Deferred[Parts]:
    """Return a Deferred of `change(response)`. A failure names the request, unless it is a
    ProtocolError."""
    later: Deferred[Parts] = Deferred(order=response.order)

    def give_up(cause: Exception | None) -> None:
        if cause is None or isinstance(cause, ProtocolError):
            later.abandon(cause)
            return
        failure = _failed(context)
        failure.__cause__ = cause
        later.abandon(failure)

    def completed(value: Any) -> None:
        try:
            parts = change(value)
        except Exception as cause:
            give_up(cause)
            return
        pass_on(parts, later)

    response.on_complete(completed)
    response.on_abandon(lambda: give_up(response.failure))
    later.on_cancel(response.cancel)
    return later


def _encode(route: _Route, correlation_id: int, response: Any) -> Parts:
    """Return length, header and body of a response, joined into one buffer. Only a Fetch response
    keeps its parts, because the outbox sends its file ranges.
    """
    parts: list[Any] = []
    route.encode(response, parts.append)
    if route.keeps_parts:
        return [_head(route, correlation_id, sum(map(len, parts))), *parts]
    body = b"".join(parts)
    return [_head(route, correlation_id, len(body)) + body]


def _encode_in_slices(
    route: _Route, correlation_id: int, response: Any, errors: ErrorCounts | None
) -> Steps[Parts]:
    """Return the same as `_encode`, in several buffers. Joining tens of megabytes would block the
    loop."""
    if errors is not None:
        yield from errors.count_in_steps(route.key, route.version, response)
    parts: Parts = []
    whole: Parts = []
    encode = sliced_encoder(APIS[route.key].response, route.version)
    for _ in encode(response, parts.append):
        if len(parts) > _JOINED:
            _join(parts, whole)
            parts.clear()
        yield
    _join(parts, whole)
    return [_head(route, correlation_id, sum(map(len, whole))), *whole]


def _join(parts: Parts, whole: Parts) -> None:
    """Append the parts to `whole`. Neighboring buffers are joined; file ranges stay as they are."""
    run: list[Part] = []
    for part in parts:
        if isinstance(part, FileRange):
            if run:
                whole.append(b"".join(cast("list[bytes]", run)))
                run = []
            whole.append(part)
        else:
            run.append(part)
    if run:
        whole.append(b"".join(cast("list[bytes]", run)))


def _head(route: _Route, correlation_id: int, size: int) -> bytes:
    """Return length and header of a response with a body of `size` bytes."""
    if route.is_response_header_flexible:
        return _FLEXIBLE_HEAD.pack(size + 5, correlation_id, 0)
    return _HEAD.pack(size + 4, correlation_id)
