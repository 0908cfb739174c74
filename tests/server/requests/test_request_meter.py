"""Requests of clients with quotas: each is counted once, and its response has its throttle time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from oncelog_protocol.apis import ApiKey, api_of
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallRequest,
    CoordinatorCallResponse,
)
from oncelog_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog_protocol.messages.produce import ProduceRequest, ProduceResponse
from oncelog_protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from oncelog_protocol.requests import Requests
from oncelog_server.deferred import Deferred, Order, then
from oncelog_server.quotas.entities import Quota, entity_of
from oncelog_server.security.resources import Principal
from oncelog_server.slices import ColdSteps, Slices, Steps
from tests.server.manual_timers import ManualTimers
from tests.server.test_dispatch import SESSION, Session, module

ALL_USERS = entity_of([("user", None)])
WORK_MS = 300


class Worked:
    """A handler with requests that take WORK_MS of the event loop."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer
        self.session: Session | None = None

    def __call__(self, *_: object) -> Any:
        assert self.session is not None
        self.session.now_ms += WORK_MS
        return self._answer()


def serving(answer: Callable[[], Any], api: ApiKey = ApiKey.HEARTBEAT) -> Session:
    """Return a session with a quota of 1 % of the event loop. The whole window, ten seconds, allows
    100 ms."""
    handler = Worked(answer)
    session = Session(module(api, range(0, 14), handler))
    handler.session = session
    session.services.slices = Slices(ManualTimers(), lambda: 0, steps_per_slice=100)
    session.quotas.follow({ALL_USERS: {Quota.REQUEST: 1.0}})
    return session


def test_the_time_of_a_handler_throttles_its_client() -> None:
    session = serving(HeartbeatResponse)
    # 300 ms are three times the limit. The throttle time is at most one window.
    response = session.read(session.serve(HeartbeatRequest(), 3))
    assert response.throttle_time_ms == 1_000
    session.quotas.follow({})
    assert session.read(session.serve(HeartbeatRequest(), 3)).throttle_time_ms == 0


def test_a_deferred_response_has_the_throttle_time_and_its_wait_does_not_count() -> None:
    later: Deferred[Any] = Deferred(order=Order.ORDERED)
    session = serving(lambda: later)
    session.quotas.follow({ALL_USERS: {Quota.REQUEST: 2.9}})
    response = session.serve(HeartbeatRequest(), 3)
    assert isinstance(response, Deferred)
    assert response.order is Order.ORDERED
    session.now_ms += 5_000  # parked
    given: list[Any] = []
    response.on_complete(given.append)
    later.complete(HeartbeatResponse())
    # The client has used 3 % of the windows of ten seconds, and 2.9 % are allowed.
    assert session.read(given[0]).throttle_time_ms == 345


def test_a_request_counts_for_the_principal_of_its_session() -> None:
    """A client that authenticates gets another session on the same connection."""
    muted: list[int] = []
    session = serving(HeartbeatResponse)
    session.quotas.follow({entity_of([("user", "alice")]): {Quota.REQUEST: 1.0}})
    anonymous = msgspec.structs.replace(SESSION, mute=muted.append)
    alice = msgspec.structs.replace(anonymous, principal=Principal("User", "alice"))
    for client, throttle_ms in ((anonymous, 0), (alice, 1_000), (anonymous, 0)):
        response = session.read(session.serve(HeartbeatRequest(), 3, client))
        assert response.throttle_time_ms == throttle_ms
    assert muted == [1_000]


def test_a_request_before_authentication_counts_against_no_quota() -> None:
    muted: list[int] = []
    session = serving(HeartbeatResponse)
    client = msgspec.structs.replace(SESSION, mute=muted.append, is_established=False)
    assert session.read(session.serve(HeartbeatRequest(), 3, client)).throttle_time_ms == 0
    assert muted == []


def test_the_time_of_all_steps_counts() -> None:
    session: Session

    def steps() -> Steps[HeartbeatResponse]:
        for _ in range(3):
            session.now_ms += 100
            yield
        return HeartbeatResponse()

    session = serving(steps)
    session.quotas.follow({ALL_USERS: {Quota.REQUEST: 5.9}})
    response = session.read(session.serve(HeartbeatRequest(), 3))
    assert response.throttle_time_ms == 169  # 6 % were used, 5.9 % are allowed


def test_the_time_of_steps_that_a_handler_runs_itself_counts_once() -> None:
    session: Session

    def steps() -> Steps[None]:
        for _ in range(3):
            session.now_ms += 100
            yield

    def handle(services: Any, context: Any, _: object) -> Any:
        done = services.slices.run(context.meter.timed(steps()))
        return then(done, lambda _: HeartbeatResponse())

    session = Session(module(ApiKey.HEARTBEAT, range(0, 14), handle))
    for steps_per_slice, throttle_ms in ((100, 345), (1, 345)):
        timers = ManualTimers()
        session.services.slices = Slices(timers, lambda: 0, steps_per_slice=steps_per_slice)
        session.quotas.follow({})
        session.quotas.follow({ALL_USERS: {Quota.REQUEST: 2.9}})
        served = session.serve(HeartbeatRequest(), 3)
        while timers.soon:
            timers.soon.pop(0)()
        parts = served.value if isinstance(served, Deferred) else served
        assert session.read(parts).throttle_time_ms == throttle_ms


def test_steps_of_a_client_with_a_quota_may_wait_for_the_disk() -> None:
    arrived: list[Callable[[], None]] = []

    class Cold:
        def prefetch(self, done: Callable[[], None]) -> None:
            arrived.append(done)

    def steps() -> ColdSteps[HeartbeatResponse]:
        yield Cold()
        return HeartbeatResponse()

    session = serving(steps)
    timers = ManualTimers()
    session.services.slices = Slices(timers, lambda: 0, steps_per_slice=100)
    served = session.serve(HeartbeatRequest(), 3)
    assert isinstance(served, Deferred)
    assert not served.done
    arrived.pop()()
    timers.soon.pop(0)()
    assert session.read(served.value).error_code == 0


def test_a_version_without_the_field_is_served_too() -> None:
    session = serving(HeartbeatResponse)
    assert session.read(session.serve(HeartbeatRequest(), 0)).error_code == 0


@pytest.mark.parametrize(
    ("request_", "version", "response"),
    [
        (WriteTxnMarkersRequest(), 1, WriteTxnMarkersResponse),
        (CoordinatorCallRequest(CoordinatorCall()), 0, CoordinatorCallResponse),
    ],
)
def test_a_request_of_another_broker_is_exempt(
    request_: Any, version: int, response: Callable[[], Any]
) -> None:
    session = serving(response, api_of(type(request_)).key)
    session.serve(request_, version)
    quota = session.quotas.request
    assert quota is not None
    assert quota.record("ANONYMOUS", "test", 0, session.now_ms) == 0


@pytest.mark.parametrize("acks", [0, 1])
def test_produce_counts_the_bytes_of_the_request_and_without_acks_no_time(acks: int) -> None:
    session = serving(ProduceResponse if acks else lambda: None, ApiKey.PRODUCE)
    session.quotas.follow({ALL_USERS: {Quota.PRODUCE: 1.0, Quota.REQUEST: 1.0}})
    _, parts = Requests("test").send(ProduceRequest(acks=acks), 9)
    size = sum(map(len, parts)) - 4
    response = session.serve(ProduceRequest(acks=acks), 9)
    assert (response is None) == (acks == 0)
    produce, time = session.quotas.produce, session.quotas.request
    assert produce is not None
    assert time is not None
    # With a limit of one byte a second: (size / 10 - 1) / 1 times ten seconds.
    assert produce.record("ANONYMOUS", "test", 0, session.now_ms) == size * 1_000 - 10_000
    assert (time.record("ANONYMOUS", "test", 0, session.now_ms) > 0) == (acks != 0)
    if acks:
        assert session.read(response).throttle_time_ms == size * 1_000 - 10_000


def test_requests_are_counted_for_the_metrics_with_and_without_quotas() -> None:
    session = serving(HeartbeatResponse)
    session.serve(HeartbeatRequest(), 3)
    session.quotas.follow({})
    session.serve(HeartbeatRequest(), 3)
    assert list(session.dispatch.counts()) == [("Heartbeat", 3, 2)]
