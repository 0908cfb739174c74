"""A connection that closes while it is muted is neither called nor muted again."""

from __future__ import annotations

import asyncio

from oncelog_server.network.mute import Mute
from oncelog_server.network.mutes import Mutes

MUTED_MS = 50


class _Connection:
    """A connection that counts the reasons for which it is held."""

    def __init__(self) -> None:
        self.held = 0

    def hold_requests(self) -> None:
        self.held += 1

    def release_requests(self) -> None:
        self.held -= 1

    def close(self, reason: str) -> None:
        raise AssertionError(reason)


async def test_a_connection_that_closes_as_its_time_ends_is_not_called() -> None:
    """The loop calls the end of a mute in a callback of its own. The connection may close between
    the two."""
    connection, now_ms = _Connection(), 0
    mutes = Mutes(asyncio.get_running_loop(), lambda: now_ms)
    mute = Mute(connection, mutes, lambda: now_ms)
    mute.extend(MUTED_MS)
    mute.extend(2 * MUTED_MS)
    now_ms = MUTED_MS
    mutes._fire()
    mute.discard()
    await asyncio.sleep(0)
    assert (connection.held, len(mutes)) == (1, 0)
