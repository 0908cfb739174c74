"""A start that waits for other processes ends soon after a signal to stop."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_server.startup import interruptible_start
from oncelog_server.startup.interruptible_start import StartStopped, until_stopped


async def after(turns: int) -> str:
    for _ in range(turns):
        await asyncio.sleep(0)
    return "started"


async def test_a_start_that_is_not_stopped_takes_its_time() -> None:
    assert await until_stopped(after(50), asyncio.Event()) == "started"


async def test_a_start_that_is_almost_complete_is_completed() -> None:
    stopping = asyncio.Event()
    stopping.set()
    assert await until_stopped(after(50), stopping) == "started"


async def test_a_start_that_waits_for_ever_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruptible_start, "GRACE_S", 0.01)
    stopping, ended = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Future()
        finally:
            ended.set()

    started = asyncio.create_task(until_stopped(waits(), stopping))
    await asyncio.sleep(0)
    stopping.set()
    with pytest.raises(StartStopped):
        await started
    assert ended.is_set()


async def test_the_error_of_a_start_is_raised() -> None:
    async def refused() -> None:
        raise OSError("the port is in use")

    with pytest.raises(OSError, match="in use"):
        await until_stopped(refused(), asyncio.Event())
