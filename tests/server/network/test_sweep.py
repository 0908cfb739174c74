"""The sweep closes idle and late connections, a few in each turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncelog_server.network import sweep as sweeping
from oncelog_server.network.sweep import CLOSED_IN_A_TURN, SEEN_IN_A_TURN, Sweep

IDLE_MS = 1_000
MANY = 10 * CLOSED_IN_A_TURN + 1


class Client:
    """A connection that is late if it has a `reason`."""

    def __init__(self, reason: str | None = None, held_bytes: int = 0) -> None:
        self.reason = reason
        self.held_bytes = held_bytes
        self.heard = self.takes = False
        self.last_active_ms = 0
        self.closed: list[str] = []

    def takes_responses(self) -> bool:
        return self.takes

    def delay(self, now_ms: int) -> str | None:
        return self.reason

    def close(self, reason: str) -> None:
        assert self.reason is None
        self.closed.append(reason)

    def fail(self, reason: str) -> None:
        assert reason == self.reason
        self.closed.append(reason)


class Swept:
    """A sweep at the time `now_ms`."""

    def __init__(self, *clients: Client, max_held_bytes: int = -1) -> None:
        self.now_ms = 0
        self.sweep = Sweep(
            asyncio.get_running_loop(),
            lambda: self.now_ms,
            clients,
            max_idle_ms=IDLE_MS,
            max_held_bytes=max_held_bytes,
        )

    def once(self) -> Iterator[None]:
        """Run one sweep. Yield at the end of each turn of the loop, except the last one."""
        return self.sweep._sweep()


async def test_h7_clients_that_are_late_together_are_closed_in_several_turns() -> None:
    clients = [Client("too late") for _ in range(MANY)]
    counts = []
    for _ in Swept(*clients).once():
        counts.append(sum(len(client.closed) for client in clients))
    assert counts == [*range(CLOSED_IN_A_TURN, MANY, CLOSED_IN_A_TURN)]
    assert all(client.closed == ["too late"] for client in clients)


async def test_a_turn_ends_after_many_connections_although_none_is_closed() -> None:
    clients = [Client() for _ in range(2 * SEEN_IN_A_TURN + 1)]
    assert len([*Swept(*clients).once()]) == 2
    assert not any(client.closed for client in clients)


async def test_the_loop_has_turns_between_the_parts_of_a_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_MS", 0)
    clients = [Client("too late") for _ in range(MANY)]
    swept = Swept(*clients)
    swept.sweep.begin()
    before, most = 0, 0
    async with asyncio.timeout(30):
        while before < MANY:
            await asyncio.sleep(0)
            closed = sum(map(bool, (client.closed for client in clients)))
            before, most = closed, max(most, closed - before)
    swept.sweep.stop()
    assert most <= CLOSED_IN_A_TURN


async def test_a_connection_without_a_read_is_closed_when_it_is_idle() -> None:
    active, idle = Client(), Client()
    swept = Swept(active, idle)
    for now_ms, heard in ((IDLE_MS, True), (IDLE_MS + 1, False)):
        swept.now_ms, active.heard = now_ms, heard
        assert [*swept.once()] == []
    assert (active.closed, idle.closed) == ([], ["idle"])
    assert active.last_active_ms == IDLE_MS


async def test_a_connection_that_takes_a_long_response_is_not_idle() -> None:
    """A client sends nothing while it reads. It could never read a response that takes longer than
    the idle time."""
    client = Client()
    swept = Swept(client)
    for now_ms in range(0, 10 * IDLE_MS, IDLE_MS):
        swept.now_ms, client.takes = now_ms, True
        assert [*swept.once()] == []
    assert client.closed == []
    swept.now_ms, client.takes = 20 * IDLE_MS, False
    assert [*swept.once()] == []
    assert client.closed == ["idle"]


class Loop:
    """An event loop that only notes the delays of its timers."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.delays.append(delay)


@pytest.mark.parametrize(
    ("max_idle_ms", "seconds"),
    [(-1, 5.0), (600_000, 5.0), (20_000, 5.0), (8_000, 2.0), (400, 0.1), (1, 0.1), (0, 0.1)],
)
def test_a_short_limit_of_idle_time_is_checked_more_often(max_idle_ms: int, seconds: float) -> None:
    loop: Any = Loop()
    Sweep(loop, lambda: 0, [], max_idle_ms=max_idle_ms, max_held_bytes=-1).begin()
    assert loop.delays == [seconds]


async def test_the_largest_incomplete_request_is_closed_beyond_the_limit() -> None:
    small, large = Client(held_bytes=10), Client(held_bytes=20)
    assert [*Swept(small, large, max_held_bytes=30).once()] == []
    assert not large.closed
    assert [*Swept(small, large, max_held_bytes=29).once()] == []
    assert large.closed == ["unfinished requests hold 30 bytes; the limit is 29"]
    assert not small.closed
