"""Serves requests with faults: error codes, held requests and responses, and fail points before a
response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.codecs import decoder, encode
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.frames import frame as with_size
from oncelog_protocol.headers import (
    REQUEST_START,
    RequestHeader,
    read_request_header,
    response_header,
)
from oncelog_server.deferred import Deferred, pass_on, then
from oncelog_server.faults.points import ANSWERS
from oncelog_server.faults.refused_responses import refused_response
from oncelog_server.faults.request_rules import Failing, Holding, RequestRules
from oncelog_server.faults.requested_topics import TopicName, requested_topics
from oncelog_server.faults.trap import Trap
from oncelog_server.network.listener import Requests
from oncelog_server.requests.response import EncodedResponse, Parts
from oncelog_server.requests.session import Session

log = structlog.get_logger("oncelog.faults")


class WatchedRequests:
    """Lets `requests` serve each request, unless a rule applies to it. Before a response is sent,
    the trap is reached if it is set at the fail point of the API.

    `trap` returns the trap in effect. `topic_name` returns the name of a topic id.
    """

    def __init__(
        self,
        requests: Requests,
        rules: RequestRules,
        trap: Callable[[], Trap | None],
        topic_name: TopicName,
    ) -> None:
        self._requests = requests
        self._rules = rules
        self._trap = trap
        self._topic_name = topic_name

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        """Serve a request. Raises ProtocolError to close the connection."""
        if len(frame) >= REQUEST_START.size:
            key = REQUEST_START.unpack_from(frame)[0]
            if key in self._rules.apis:
                return self._serve_by_rules(frame, session)
        return self._serve(frame, session)

    def _serve_by_rules(self, frame: memoryview, session: Session) -> EncodedResponse:
        header, position = read_request_header(frame)
        if header.api_version not in APIS[header.api_key].versions:
            return self._serve(frame, session)
        request: Any = None

        def decoded() -> Any:
            nonlocal request
            if request is None:
                decode = decoder(APIS[header.api_key].request, header.api_version)
                request, _ = decode(frame, position)
            return request

        rule = self._rules.apply_to(
            header.api_key,
            header.client_id,
            lambda: requested_topics(decoded(), header.api_version, self._topic_name),
        )
        if rule is None:
            return self._serve(frame, session)
        api = APIS[header.api_key].name
        if isinstance(rule, Failing):
            log.info("request refused by a test", api=api, client_id=header.client_id,
                     error=rule.code.name)  # fmt: skip
            return _refuse(header, decoded(), rule.code)
        log.info("request held by a test", api=api, client_id=header.client_id)
        return self._hold(rule, frame, session)

    def _serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        response = self._requests.serve(frame, session)
        trap = self._trap()
        if trap is None:
            return response
        name = ANSWERS.get(REQUEST_START.unpack_from(frame)[0])
        if name is None or name != trap.name:
            return response

        def leaving(parts: Parts) -> Parts:
            trap.reached(name)
            return parts

        if isinstance(response, Deferred):
            return then(response, leaving)
        return None if response is None else leaving(response)

    def _hold(self, rule: Holding, frame: memoryview, session: Session) -> Deferred[Parts]:
        held: Deferred[Parts] = Deferred()
        # The bytes are in the connection's buffer, which later requests use again.
        kept = memoryview(bytearray(frame))
        served = self._serve(kept, session) if rule.holds_response else None

        def go_on(lost: bool) -> None:
            try:
                response = served if rule.holds_response else self._serve(kept, session)
                parts = then(response, _lose if lost else _parts)
            except Exception as failure:
                held.abandon(failure)
                return
            pass_on(parts, held)

        rule.arrive(go_on)
        return held


def _refuse(header: RequestHeader, request: Any, code: ErrorCode) -> Parts:
    """Return the response with this error code. Raises ProtocolError for a Produce with acks=0,
    because its client expects no response: as in Kafka, the connection closes."""
    api, version = ApiKey(header.api_key), header.api_version
    if api is ApiKey.PRODUCE and request.acks == 0:
        raise ProtocolError(f"Produce with acks=0 failed: {code.name}")
    body = encode(refused_response(api, version, request, code), version)
    return [b"".join(with_size([response_header(api, version, header.correlation_id), body]))]


def _lose(response: Parts | None) -> Parts:
    """Raise ProtocolError, which closes the connection instead of sending the response."""
    raise ProtocolError("a test loses the response")


def _parts(response: Parts | None) -> Parts:
    return response or []
