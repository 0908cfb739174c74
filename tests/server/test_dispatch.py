"""Tests of Dispatch: a request gets to its handler, and without a handler its connection closes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog_protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from oncelog_protocol.requests import Requests
from oncelog_server.broker_services import BrokerServices
from oncelog_server.deferred import Deferred, Order, then
from oncelog_server.dispatch import Dispatch, Handler
from oncelog_server.handlers import all_handlers
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.requests.response import EncodedResponse, Parts, RequestFailed
from oncelog_server.requests.session import Session as ClientSession
from oncelog_server.security.authorizer import AllowAll
from oncelog_server.security.resources import ANONYMOUS
from oncelog_server.settings.model import Settings
from oncelog_server.slices import Slices, Steps
from tests.server.manual_timers import ManualTimers

SESSION = ClientSession(ANONYMOUS, "127.0.0.1", "PLAINTEXT", lambda: False)


class Session:
    """The requests of one connection to a Dispatch, without a socket. `now_ms` is the broker's
    monotonic time."""

    now_ms = 1_000_000

    def __init__(self, *handlers: Handler) -> None:
        self.quotas = QuotaGate(lambda: self.now_ms)
        services = SimpleNamespace(
            settings=Settings(),
            authorizer=AllowAll(),
            versions={},
            quotas=self.quotas,
            clock=SimpleNamespace(monotonic_ns=lambda: self.now_ms * 1_000_000),
        )
        self.services = cast(BrokerServices, services)
        self.dispatch = Dispatch(self.services, handlers)
        self.requests = Requests("test")

    def serve(
        self, request: Any, version: int, session: ClientSession = SESSION
    ) -> EncodedResponse:
        _, parts = self.requests.send(request, version)
        frame = b"".join(bytes(part) for part in parts)[4:]
        return self.dispatch.serve(memoryview(frame), session)

    def read(self, response: EncodedResponse) -> Any:
        assert isinstance(response, list)
        data = b"".join(bytes(part) for part in cast("list[bytes]", response))
        (message,) = list(self.requests.receive_data(data))
        return message.message


def module(api: ApiKey, versions: range, handle: Any) -> Handler:
    return cast(Handler, SimpleNamespace(API=api, versions=versions, handle=handle))


def beat(
    services: BrokerServices, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=request.generation_id)


def api_versions(
    services: BrokerServices, context: RequestContext, request: object
) -> ApiVersionsResponse:
    code = ErrorCode.NONE if request is not None else ErrorCode.UNSUPPORTED_VERSION
    return ApiVersionsResponse(error_code=code)


@pytest.fixture
def session() -> Session:
    return Session(
        module(ApiKey.HEARTBEAT, range(1, 5), beat),
        module(ApiKey.API_VERSIONS, range(0, 6), api_versions),
    )


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_has_its_own_response(session: Session, version: int) -> None:
    response = session.serve(HeartbeatRequest(group_id="g", generation_id=27), version)
    assert session.read(response) == HeartbeatResponse(error_code=27)


def test_a_version_that_is_not_served_closes_the_connection(session: Session) -> None:
    with pytest.raises(ProtocolError):
        session.serve(HeartbeatRequest(), 0)


def test_an_api_that_is_not_served_closes_the_connection(session: Session) -> None:
    with pytest.raises(ProtocolError):
        session.dispatch.serve(memoryview(b"\x00\x0b\x00\x00\x00\x00\x00\x01\xff\xff"), SESSION)


def test_api_versions_of_an_unknown_version_gets_a_response_in_version_0(session: Session) -> None:
    """KIP-511: the client gets the versions that it may use."""
    header = b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x01c\x00"
    response = session.dispatch.serve(memoryview(header), SESSION)
    data = b"".join(cast("list[bytes]", response))
    assert data[4:10] == b"\x00\x00\x00\x07" + ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def test_a_deferred_response_is_encoded_when_the_handler_completes_it(session: Session) -> None:
    later: Deferred[HeartbeatResponse] = Deferred(order=Order.ORDERED)
    session = Session(module(ApiKey.HEARTBEAT, range(1, 5), lambda *_: later))
    response = session.serve(HeartbeatRequest(), 3)
    assert isinstance(response, Deferred)
    assert response.order is Order.ORDERED
    given: list[Parts] = []
    response.on_complete(given.append)
    later.complete(HeartbeatResponse(error_code=16))
    assert session.read(given[0]).error_code == 16


def test_cancelling_a_parked_response_cancels_the_deferred_of_the_handler() -> None:
    later: Deferred[HeartbeatResponse] = Deferred()
    given_up: list[None] = []
    later.on_cancel(lambda: given_up.append(None))
    session = Session(module(ApiKey.HEARTBEAT, range(1, 5), lambda *_: later))
    response = session.serve(HeartbeatRequest(), 3)
    assert isinstance(response, Deferred)
    response.cancel()
    assert len(given_up) == 1


def test_the_error_of_a_handler_with_a_defect_names_the_request() -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    session = Session(module(ApiKey.HEARTBEAT, range(1, 5), fail))
    with pytest.raises(RequestFailed) as failed:
        session.serve(HeartbeatRequest(), 3)
    assert failed.value.asked == {"api": "Heartbeat", "version": 3, "client_id": "test"}
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("fails_in_handler", [False, True])
def test_a_deferred_response_that_cannot_be_encoded_fails_only_its_own_request(
    fails_in_handler: bool,
) -> None:
    """The code that completes the response continues. The connection gets the failure with the
    request's API and version."""
    later: Deferred[Any] = Deferred()

    def handle(*_: object) -> Any:
        if fails_in_handler:
            return then(later, lambda value: value.no_such_field)
        return later

    session = Session(module(ApiKey.HEARTBEAT, range(1, 5), handle))
    response = session.serve(HeartbeatRequest(), 2)
    assert isinstance(response, Deferred)
    failures: list[Exception | None] = []
    response.on_abandon(lambda: failures.append(response.failure))
    later.complete(HeartbeatResponse(error_code=1 << 20))
    (failure,) = failures
    assert isinstance(failure, RequestFailed)
    assert failure.asked["api"] == "Heartbeat"
    assert failure.asked["version"] == 2
    assert failure.__cause__ is not None


@pytest.mark.parametrize("turns", [0, 3])
def test_a_deferred_response_may_be_made_in_slices(turns: int) -> None:
    """For example, Metadata makes its response in slices after it has created topics. The fuzzer
    found this case."""
    later: Deferred[Any] = Deferred()
    session = Session(module(ApiKey.HEARTBEAT, range(1, 5), lambda *_: later))
    timers = ManualTimers()
    session.services.slices = Slices(timers, lambda: 0, steps_per_slice=1)

    def work() -> Steps[HeartbeatResponse]:
        for _ in range(turns):
            yield
        return HeartbeatResponse(error_code=16)

    response = session.serve(HeartbeatRequest(), 3)
    assert isinstance(response, Deferred)
    given: list[Parts] = []
    response.on_complete(given.append)
    later.complete(work())
    timers.run_soon()
    assert session.read(given[0]).error_code == 16


def test_work_in_slices_stops_if_the_response_is_cancelled() -> None:
    done: list[int] = []

    def work() -> Steps[HeartbeatResponse]:
        for number in range(100):
            done.append(number)
            yield
        return HeartbeatResponse()

    session = Session(module(ApiKey.HEARTBEAT, range(1, 5), lambda *_: work()))
    timers = ManualTimers()
    session.services.slices = Slices(timers, lambda: 0, steps_per_slice=1)
    response = session.serve(HeartbeatRequest(), 3)
    assert isinstance(response, Deferred)
    response.cancel()
    timers.run_soon()
    assert len(done) < 100


@pytest.mark.parametrize("is_idle", [True, False])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_cancelled_response_cancels_the_wait_after_work_in_slices(
    is_idle: bool, depth: int
) -> None:
    """For example, a Fetch of many partitions waits for records after its first read, and its
    client closes the connection."""
    parked: Deferred[HeartbeatResponse] = Deferred()

    def work(depth: int) -> Steps[Any]:
        yield
        return parked if depth == 1 else work(depth - 1)

    def other() -> Steps[None]:
        for _ in range(3):
            yield

    session = Session(module(ApiKey.HEARTBEAT, range(1, 5), lambda *_: work(depth)))
    timers = ManualTimers()
    session.services.slices = Slices(timers, lambda: 0, steps_per_slice=2 if is_idle else 1)
    if not is_idle:
        session.services.slices.queue(other())
    response = session.serve(HeartbeatRequest(), 3)
    assert isinstance(response, Deferred)
    timers.run_soon()
    assert not response.done
    response.cancel()
    assert parked.cancelled


def test_a_large_response_is_sent_whole_in_several_buffers() -> None:
    """Joining tens of megabytes into one buffer would block the loop."""
    groups = [ListedGroup(f"group-{number}", "consumer") for number in range(10_000)]

    def work() -> Steps[ListGroupsResponse]:
        yield
        return ListGroupsResponse(groups=groups)

    session = Session(module(ApiKey.LIST_GROUPS, range(3), lambda *_: work()))
    session.services.slices = Slices(ManualTimers(), lambda: 0, steps_per_slice=10**9)
    response = session.serve(ListGroupsRequest(), 2)
    assert isinstance(response, list)
    assert len(response) > 3
    assert max(map(len, response)) < sum(map(len, response)) / 2
    assert session.read(response).groups == groups


def test_a_handler_may_return_no_response(session: Session) -> None:
    session = Session(module(ApiKey.HEARTBEAT, range(1, 5), lambda *_: None))
    assert session.serve(HeartbeatRequest(), 3) is None


def test_a_handler_may_return_no_response_to_a_large_request() -> None:
    """For example, EndTxn with long tagged fields gets no response if its client has closed the
    connection. The fuzzer found this case."""
    session = Session(module(ApiKey.HEARTBEAT, range(1, 5), lambda *_: None))
    timers = ManualTimers()
    session.services.slices = Slices(timers, lambda: 0, steps_per_slice=10)
    request = HeartbeatRequest("g" * 30_000, member_id="m" * 30_000, group_instance_id="i" * 30_000)
    response = session.serve(request, 3)
    if isinstance(response, Deferred):
        timers.run_soon()
        response = response.value
    assert response == []


def test_a_truncated_request_raises_protocol_error(session: Session) -> None:
    _, parts = session.requests.send(HeartbeatRequest(group_id="group"), 3)
    frame = b"".join(bytes(part) for part in parts)[4:]
    for size in range(len(frame) - 1):
        with pytest.raises(ProtocolError):
            session.dispatch.serve(memoryview(frame[:size]), SESSION)


def test_two_handlers_for_one_api_raise_value_error() -> None:
    with pytest.raises(ValueError, match="HEARTBEAT"):
        Session(
            module(ApiKey.HEARTBEAT, range(1, 2), beat), module(ApiKey.HEARTBEAT, range(1, 2), beat)
        )


def test_every_api_of_the_protocol_is_served_in_all_its_versions() -> None:
    served = {handler.API: handler.versions for handler in all_handlers()}
    assert served == {key: api.versions for key, api in APIS.items()}


def test_the_api_declared_for_a_handler_is_the_api_of_its_module() -> None:
    for handler in all_handlers():
        assert handler.module.API == handler.API


def test_an_api_versions_request_with_a_client_name_is_accepted(session: Session) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    assert session.read(session.serve(request, 3)).error_code == 0
