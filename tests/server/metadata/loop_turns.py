"""Counts what a broker does in one turn of its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

DEADLINE_S = 60


async def most_in_a_turn(seen: Callable[[], int], holds: Callable[[], bool]) -> int:
    """Return the largest growth of `seen` in one turn of the loop, until the condition holds."""
    most, before = 0, seen()

    def turn() -> bool:
        nonlocal most, before
        most, before = max(most, seen() - before), seen()
        return holds()

    async with asyncio.timeout(DEADLINE_S):
        while not turn():  # noqa: ASYNC110 - looks at each turn of the loop
            await asyncio.sleep(0)
    return most
