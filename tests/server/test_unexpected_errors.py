"""The event loop's own error reports become log events, unless nothing unexpected happened."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs

from oncelog_server.serve import _log_unexpected

DEADLINE_S = 60.0
# A name with an empty label exists nowhere, so the look-up needs no name server. As a str, it would
# fail before the look-up.
NO_NAME: Any = b"no..name"


def reported(failing: Any) -> list[Any]:
    """Return the log events of the first error that uvloop reports while `failing()` runs."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        report = asyncio.Event()

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            _log_unexpected(loop, context)
            report.set()

        loop.set_exception_handler(handle)
        await failing(loop)
        async with asyncio.timeout(DEADLINE_S):
            await report.wait()

    with capture_logs() as events:
        uvloop.run(run())
    return events


async def cancelled_connect(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel a connect during the look-up of its name."""
    connecting = loop.create_task(loop.create_connection(asyncio.Protocol, NO_NAME, 1))
    await asyncio.sleep(0)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting


async def forgotten_task(loop: asyncio.AbstractEventLoop) -> None:
    async def look_up() -> None:
        raise socket.gaierror(socket.EAI_NONAME, "no name")

    loop.create_task(look_up())
    await asyncio.sleep(0)


async def failed_callback(loop: asyncio.AbstractEventLoop) -> None:
    def look_up() -> None:
        raise socket.gaierror(socket.EAI_NONAME, "no name")

    loop.call_soon(look_up)


def test_a_cancelled_connect_logs_no_unexpected_error() -> None:
    assert reported(cancelled_connect) == []


@pytest.mark.parametrize("failing", [forgotten_task, failed_callback])
def test_other_failures_of_a_look_up_are_logged(failing: Any) -> None:
    (event,) = reported(failing)
    assert event["event"] == "unexpected error"
    assert isinstance(event["exc_info"], socket.gaierror)
