"""Work that a cancellation hurries, and does not stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def complete(work: Callable[[], Awaitable[None]], hurry: Callable[[], None]) -> None:
    """Await `work()`. If the caller is cancelled meanwhile, call `hurry`, await `work()` from its
    beginning, and raise the CancelledError at its end. So `work` must be repeatable, and short
    after `hurry`."""
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            await work()
            break
        except asyncio.CancelledError as error:
            cancelled = error
            hurry()
    if cancelled is not None:
        raise cancelled
