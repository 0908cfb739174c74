"""The log events of connections that the broker closes: one event for each address and kind."""

from __future__ import annotations

import structlog

from oncelog_server.clock import SystemClock
from oncelog_server.network.listener import Limits, Listener
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.requests.response import EncodedResponse
from oncelog_server.requests.session import Session
from oncelog_server.security.audit import MOST_KEYS
from oncelog_server.settings.model import Settings


class Unused:
    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        raise AssertionError("there is no connection")


async def test_a_client_with_many_wrong_sizes_hides_no_other_client() -> None:
    clock = SystemClock()
    listener = Listener(Unused(), Limits.of(Settings()), clock, QuotaGate(clock.monotonic_ms))
    with structlog.testing.capture_logs() as lines:
        for size in range(2 * MOST_KEYS):
            listener.log_closing("/10.0.0.1", f"a frame of {size} bytes; the limit is 100")
        listener.log_closing("/10.0.0.1", "idle")
        listener.log_closing("/10.0.0.2", "idle")
    assert [(line["peer"], line["reason"]) for line in lines] == [
        ("/10.0.0.1", "a frame of 0 bytes; the limit is 100"),
        ("/10.0.0.1", "idle"),
        ("/10.0.0.2", "idle"),
    ]
