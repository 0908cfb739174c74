"""Sockets that become writable: each callback runs, even if another callback fails."""

from __future__ import annotations

import asyncio
import socket
from functools import partial

import pytest

from oncelog_server.network.writables import Writables

pytestmark = pytest.mark.skipif(not Writables.is_possible(), reason="no epoll on this system")


async def test_a_callback_that_fails_is_logged_and_the_others_are_called() -> None:
    loop = asyncio.get_running_loop()
    raised: list[BaseException | None] = []
    loop.set_exception_handler(lambda _, context: raised.append(context.get("exception")))
    writables, called, all_called = Writables(loop), list[int](), asyncio.Event()
    pairs = [socket.socketpair() for _ in range(3)]

    def call(number: int) -> None:
        called.append(number)
        if len(called) == len(pairs):
            all_called.set()
        raise RuntimeError(number)

    try:
        for number, (near, _) in enumerate(pairs):
            writables.watch(near.fileno(), partial(call, number))
        async with asyncio.timeout(30):
            await all_called.wait()
        await asyncio.sleep(0)
    finally:
        writables.close()
        for pair in pairs:
            for end in pair:
                end.close()
    assert sorted(called) == [0, 1, 2]
    assert [str(error) for error in raised] == [str(number) for number in called]
