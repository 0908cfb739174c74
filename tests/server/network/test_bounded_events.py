"""The log events of clients that a listener closes: the first at once, the others as a count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from oncelog_protocol.codecs import encoder
from oncelog_protocol.headers import write_request_header
from oncelog_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeRequest
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_server.loop_timers import LoopTimers
from oncelog_server.network.admission import Admission, PlaintextAdmission
from oncelog_server.network.listener import Limits, Listener
from oncelog_server.network.secured_admission import SecuredAdmission
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.requests.authentication import SaslRules
from oncelog_server.security.audit import GroupedEvents
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.security.sasl.plain import PlainExchange, PlainUsers
from oncelog_server.settings.listener_settings import ListenerSetting
from oncelog_server.settings.model import Settings
from tests.server.network.test_connection_rate import DEADLINE_S, Echo, ManualClock

Events = list[MutableMapping[str, Any]]


@asynccontextmanager
async def listening(admission: Admission, settings: Settings) -> AsyncIterator[tuple[int, Events]]:
    """Yield the port of a listener and its log events, with those of its stop at the end."""
    clock = ManualClock()
    listener = Listener(Echo(), Limits.of(settings), clock, QuotaGate(clock.monotonic_ms))
    _, port = await listener.bind(admission, "127.0.0.1", 0)
    await listener.accept()
    with capture_logs() as events:
        async with asyncio.timeout(DEADLINE_S):
            yield port, events
            while listener.connections:  # noqa: ASYNC110 - waits for turns of the loop
                await asyncio.sleep(0.001)
        await listener.stop(0.1)


async def is_closed(port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    return True


async def test_connections_above_a_limit_are_one_event_and_a_count_at_the_stop() -> None:
    settings = Settings(max_connections=0)
    async with listening(PlaintextAdmission("EXTERNAL"), settings) as (port, events):
        for _ in range(5):
            assert await is_closed(port)
        assert len(events) == 1
    expected = {
        "event": "too many connections",
        "log_level": "warning",
        "limit": 0,
        "listener": "EXTERNAL",
        "peer": "/127.0.0.1",
    }
    assert events == [expected | {"count": 1}, expected | {"count": 4}]


async def test_each_limit_has_its_own_event() -> None:
    of_listener = {ListenerSetting("A", None, "max.connections"): 0}
    for settings, event in (
        (Settings(max_connections_per_ip=0), "of one address"),
        (Settings(of_listeners=of_listener), "of one listener"),
    ):
        async with listening(PlaintextAdmission("A"), settings) as (port, events):
            assert await is_closed(port)
        assert [found["event"] for found in events] == [f"too many connections {event}"]


def framed(request: Any, key: int, version: int) -> bytes:
    parts: list[Any] = [write_request_header(key, version, 7, "test")]
    encoder(type(request), version)(request, parts.append)
    body = b"".join(parts)
    return len(body).to_bytes(4, "big") + body


async def test_a_client_that_closes_before_its_refusal_is_a_failed_authentication() -> None:
    """The response to a wrong password is delayed by a minute here."""
    logged: list[object] = []
    exchange = partial(PlainExchange, PlainUsers({"alice": Secret("S3cret")}, b"key"))
    rules = SaslRules(
        exchanges={SaslMechanism.PLAIN: lambda again: exchange()},
        max_reauth_ms={},
        failure_delay_ms=60_000,
        wall_ms=lambda: 0,
        monotonic_ms=lambda: 0,
        timers=LoopTimers(asyncio.get_running_loop()),
    )
    admission = SecuredAdmission(
        "EXTERNAL",
        SecurityProtocol.SASL_PLAINTEXT,
        GroupedEvents(lambda count, **fields: logged.append(fields["reason"]), lambda: 0),
        sasl=rules,
        max_unauthenticated_bytes=65_536,
    )
    async with listening(admission, Settings()) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(framed(SaslHandshakeRequest("PLAIN"), 17, 1))
        await reader.readexactly(4)
        writer.write(framed(SaslAuthenticateRequest(b"\0alice\0wrong"), 36, 1))
        await writer.drain()
        writer.close()
        while not admission.failures:  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0.001)
    assert logged == ["wrong password: 'alice'"]
    assert admission.failures == 1


@pytest.mark.timeout(10)
def test_a_long_reason_takes_no_longer_than_a_short_one() -> None:
    """Each quote of the text was tried against all of its rest: 25 s for 64 KB."""
    logged: list[Any] = []
    events = GroupedEvents(lambda count, **fields: logged.append(fields), lambda: 0)
    for _ in range(2):
        events.add("key", "group", reason="'\\\"" * 100_000)
    assert len(logged) == 1
