"""Work that goes to its end after a cancellation of its caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def complete(work: Callable[[], Awaitable[None]], shorten: Callable[[], None]) -> None:
    """Await `work()`. If the caller is cancelled meanwhile, call `shorten`, await `work()` from its
    beginning, and raise the CancelledError at its end. So `work` must be repeatable, and short
    after `shorten`."""
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            await work()
            break
        except asyncio.CancelledError as error:
            cancelled = error
            shorten()
    if cancelled is not None:
        raise cancelled
