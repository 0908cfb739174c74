"""A listener closes the new connections of an address beyond its rate (KIP-612)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from oncelog_server.network.admission import PlaintextAdmission
from oncelog_server.network.listener import Limits, Listener
from oncelog_server.quotas.entities import Quota, entity_of
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.requests.response import EncodedResponse
from oncelog_server.requests.session import Session
from oncelog_server.settings.model import Settings

DEADLINE_S = 30
FRAME = b"\0\0\0\4ping"


class Echo:
    """A server that responds with the frame of the request."""

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        return [bytes(frame)]


class ManualClock:
    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000

    def boottime_ms(self) -> int:
        return self.ms


async def test_a_connection_beyond_the_rate_of_its_address_is_not_served_and_closed_later() -> None:
    clock = ManualClock()
    quotas = QuotaGate(clock.monotonic_ms)
    listener = Listener(Echo(), Limits.of(Settings()), clock, quotas)
    _, port = await listener.bind(PlaintextAdmission("PLAINTEXT"), "127.0.0.1", 0)
    await listener.accept()
    # One connection in the windows of ten seconds.
    quotas.follow({entity_of([("ip", "127.0.0.1")]): {Quota.CONNECTION: 0.1}})
    async with asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(FRAME)
        assert await reader.readexactly(4) == b"ping"
        refused, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(FRAME)
        writer.write(FRAME)
        assert await reader.readexactly(4) == b"ping"
        assert len(listener.connections) == 2
        clock.ms += 1_000
        with suppress(ConnectionResetError):
            assert await refused.read() == b""
        assert len(listener.connections) == 1
        writer.close()
        other.close()
        await listener.stop(0.1)
