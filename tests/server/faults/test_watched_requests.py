"""A held request ends when the broker gives its response up, even if the response is to be lost."""

from __future__ import annotations

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.headers import write_request_header
from oncelog_server.deferred import Deferred
from oncelog_server.faults.fault_register import FaultRegister
from oncelog_server.faults.request_rules import Holding, RequestRules, Scope
from oncelog_server.faults.watched_requests import WatchedRequests
from oncelog_server.requests.response import EncodedResponse, Parts
from oncelog_server.requests.session import Handshake, Session


class Serving:
    """A server with a response that the test gives up."""

    def __init__(self) -> None:
        self.response: Deferred[Parts] = Deferred()

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        return self.response


@pytest.mark.parametrize("lost", [False, True])
def test_a_response_that_is_given_up_ends_the_held_request(lost: bool) -> None:
    rules, serving = RequestRules(FaultRegister()), Serving()
    rule = Holding(Scope(ApiKey.METADATA, None, None), holds_response=False)
    rules.add(rule)
    requests = WatchedRequests(serving, rules, lambda: None, lambda topic_id: None)
    session = Handshake("PLAINTEXT").transport_open("127.0.0.1", lambda: False)
    frame = memoryview(bytearray(write_request_header(ApiKey.METADATA, 12, 1, "c") + b"\0\0\0"))
    held = requests.serve(frame, session)
    assert isinstance(held, Deferred)
    given_up: list[Exception | None] = []
    held.on_abandon(lambda: given_up.append(held.failure))
    rule.release(lost=lost)
    assert given_up == []
    failure = RuntimeError("a defect")
    serving.response.abandon(failure)
    assert given_up == [failure]
