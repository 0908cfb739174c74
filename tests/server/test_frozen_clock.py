"""A clock that stands still (K7): no timer fires, no loop spins, and the broker serves every
client."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker import Broker
from oncelog_server.clock import SystemClock
from oncelog_server.config import load_settings
from oncelog_server.environment import OsEnvironment
from tests.harness.driving import QUICK, create, values
from tests.harness.writing import batch, end_transaction, new_identity, produce

IDLE_S = 0.6
CPU_SHARE = 0.3


class Frozen:
    """A clock that always shows the time of its creation."""

    def __init__(self) -> None:
        self._wall_ms = SystemClock().now_ms()

    def now_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return 1_000_000

    def monotonic_ns(self) -> int:
        return 1_000_000_000_000

    def boottime_ms(self) -> int:
        return 1_000_000


class Stopped(OsEnvironment):
    """An environment with a frozen clock."""

    def __init__(self, data_directory: str) -> None:
        super().__init__(data_directory)
        self.clock = Frozen()


async def test_k7_an_idle_broker_with_a_frozen_clock_uses_little_processor_time(
    tmp_path: Path,
) -> None:
    quick = QUICK | {"listeners": "PLAINTEXT://127.0.0.1:0"}
    assignments = [f"{name}={value}" for name, value in quick.items()]
    loaded = load_settings(assignments=assignments, data=str(tmp_path))
    broker = Broker(loaded.settings, Stopped(str(tmp_path)))
    await broker.start()
    _, host, port = broker.addresses[0]
    try:
        with await asyncio.to_thread(Wire, f"{host}:{port}") as wire:
            await asyncio.to_thread(begin, wire)
            gc.disable()  # garbage of earlier tests does not count
            began = (
                time.thread_time()
            )  # CPU time of this thread, without the threads of earlier tests
            await asyncio.sleep(IDLE_S)  # the broker is idle for this time
            assert time.thread_time() - began < CPU_SHARE * IDLE_S
            await asyncio.to_thread(go_on, wire)
    finally:
        gc.enable()
        await broker.stop()


def begin(wire: Wire) -> None:
    """Begin a transaction with a short timeout."""
    create(wire, "t")
    producer = new_identity(wire, "t", timeout_ms=100)
    assert produce(wire, "t", batch(producer, 0), producer=producer).error_code == ErrorCode.NONE


def go_on(wire: Wire) -> None:
    """Check that the first transaction is still open, and that another transaction can begin and
    end."""
    assert values(wire, "t") == []
    other = new_identity(wire, "other")
    data = batch(other, 0, value=b"other")
    assert produce(wire, "t", data, producer=other).error_code == ErrorCode.NONE
    assert end_transaction(wire, other, commit=True).error_code == ErrorCode.NONE
