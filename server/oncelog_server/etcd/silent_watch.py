"""Finds a watch that gets nothing although etcd has changed.

A network can drop the packets of one connection and carry all others: neither end of this
connection notices it, and other calls to the same member succeed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final

# The maximum delay of a watch.
LATE_S: Final = 2.0


class SilentWatch(OSError):
    """Either the watch has missed changes, or only foreign keys have changed. A new watch shows
    which."""


async def heard(
    received: AsyncGenerator[bytes, None], newest: Callable[[], int]
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a watch.

    `newest` returns the highest revision in all responses of etcd. Raises SilentWatch if nothing
    arrives for `LATE_S`, although during all of this time etcd has had a newer revision than at the
    last arrival.
    """
    at_arrival = before = newest()
    arriving = asyncio.ensure_future(anext(received))
    try:
        while True:
            await asyncio.wait((arriving,), timeout=LATE_S)
            if not arriving.done():
                if before > at_arrival:
                    raise SilentWatch("a watch of etcd gets no changes")
                before = newest()
                continue
            yield arriving.result()
            at_arrival = before = newest()
            arriving = asyncio.ensure_future(anext(received))
    finally:
        arriving.cancel()
        await asyncio.wait((arriving,))
