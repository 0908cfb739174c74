"""A port has one listener. If two sockets are bound to the port, the second `listen` fails, on the
event loops of asyncio and of uvloop."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest
import uvloop

from oncelog_server.network.binding import BindAddress, CannotListen, bind, listen
from oncelog_server.network.port_owner import port_owner

BACKLOG = 10
WAY_OUT = "take another"


async def _second_listens() -> str:
    """Bind two servers to one port, then let both listen. Return the error of the second server."""
    first = await bind(asyncio.Protocol, BindAddress("127.0.0.1", 0, "listeners", WAY_OUT), BACKLOG)
    port = first.sockets[0].getsockname()[1]
    place = BindAddress("127.0.0.1", port, "listeners", WAY_OUT)
    second = await bind(asyncio.Protocol, place, BACKLOG)
    await listen(first, place, BACKLOG)
    try:
        with pytest.raises(CannotListen) as refused:
            await listen(second, place, BACKLOG)
        with socket.create_connection(("127.0.0.1", port)):
            return str(refused.value)
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_the_second_of_two_bound_servers_cannot_listen(
    run: object,
) -> None:
    assert callable(run)
    said = run(_second_listens())
    assert f"is in use by {port_owner_name()} (pid {os.getpid()}): {WAY_OUT}" in said


def port_owner_name() -> str:
    with open("/proc/self/comm", encoding="utf-8") as comm:
        return comm.read().strip()


def test_a_port_that_is_free_has_no_owner() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert port_owner(bound.getsockname()[1]) == "", "a bound socket does not listen yet"
