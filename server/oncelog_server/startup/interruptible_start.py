"""A start that waits for other processes, and ends when the broker is to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Most starts are complete within this time, and the broker then stops cleanly.
GRACE_S: Final = 3.0


class StartStopped(Exception):
    """The start was cancelled, because the broker was to stop."""


async def until_stopped(start: Coroutine[Any, Any, T], stopping: asyncio.Event) -> T:
    """Return the result of `start`. If `stopping` is set meanwhile, and the start takes more than
    GRACE_S from then on, cancel it and raise StartStopped. The data directory is then like that of
    a killed process."""
    starting = asyncio.ensure_future(start)
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            await asyncio.wait((starting,), timeout=GRACE_S)
        if not starting.done():
            starting.cancel()
            await asyncio.wait((starting,))
        if starting.cancelled():
            raise StartStopped
        return starting.result()
    finally:
        starting.cancel()
        stopped.cancel()
