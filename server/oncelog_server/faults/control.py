"""The control socket: a test process sets faults while the broker runs.

The socket is a Unix socket in the data directory, which only processes of the same user can use. A
request and its response are one line of JSON each. A request names its `command`, a row of
COMMANDS, and the arguments of the command. The response is an object; it has the key `error` if the
request is refused.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeAlias

from oncelog_protocol.apis import api_named
from oncelog_protocol.errors import ErrorCode
from oncelog_server.faults.faults import Faults
from oncelog_server.faults.refused_responses import NOT_REFUSED
from oncelog_server.faults.request_rules import UNLIMITED, Failing, Holding, Scope
from oncelog_server.faults.requested_topics import names_topics
from oncelog_server.operating_system.socket_path import socket_path
from oncelog_server.storage.layout import FAULTS_MET, FAULTS_SOCKET

Json: TypeAlias = dict[str, Any]

# Whatever the umask of the process is, no other user may make the broker fail.
OWNER_ONLY: Final = 0o600


class InvalidCommand(ValueError):
    """The command or one of its arguments is invalid. The message names it."""


class FaultControl:
    """The control socket of one broker."""

    def __init__(self, faults: Faults, data_directory: Path) -> None:
        self._faults = faults
        self._path = data_directory / FAULTS_SOCKET
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen on the socket, and note the faults that are met. Raises OSError."""
        self._faults.register.keep_in(self._path.parent / FAULTS_MET)
        with suppress(FileNotFoundError):
            self._path.unlink()
        with socket_path(self._path.parent, FAULTS_SOCKET) as path:
            self._server = await asyncio.start_unix_server(self._serve, path)
        self._path.chmod(OWNER_ONLY)

    def close(self) -> None:
        """Stop to listen, remove the socket, and let held requests continue."""
        self._faults.rules.clear()
        if self._server is not None:
            self._server.close()
            self._server = None
        with suppress(FileNotFoundError):
            self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError):
                while line := await reader.readline():
                    writer.write(json.dumps(await self._respond(line)).encode() + b"\n")
                    await writer.drain()
        finally:  # a defect is logged, and the test need not wait for its deadline
            writer.close()

    async def _respond(self, line: bytes) -> Json:
        try:
            arguments = json.loads(line)
            name = arguments.pop("command")
            if name not in COMMANDS:
                raise InvalidCommand(f"command {name!r} is not known; there are {[*COMMANDS]}")
            response = COMMANDS[name](self._faults, **arguments)
            return response if isinstance(response, dict) else await response
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return {"error": str(error)}


def _scope(api: object, topic: str | None, client_id: str | None) -> Scope:
    if not isinstance(api, str):
        raise InvalidCommand(f"API {api!r} is not a name; give a name, for example EndTxn")
    key = api_named(api)
    if topic is not None and not names_topics(key):
        raise InvalidCommand(f"requests of {key.name} name no topic")
    return Scope(key, topic, client_id)


def _code(name: object) -> ErrorCode:
    """Return the error code of a name. Raises InvalidCommand with up to three similar names."""
    codes = {code.name: code for code in ErrorCode if code is not ErrorCode.NONE}
    if not isinstance(name, str):
        known = [code.name for code in codes.values() if code == name]
        hint = known[0] if known else "for example NOT_COORDINATOR"
        raise InvalidCommand(f"error code {name!r} is a number; give its name, {hint}")
    if name not in codes:
        near = get_close_matches(name.upper(), codes, 3, cutoff=0.4)
        hint = (
            f"; did you mean {' or '.join(near)}?" if near else "; use the names of Kafka's codes"
        )
        raise InvalidCommand(f"error code {name!r} is not known{hint}")
    return codes[name]


def _fail(
    faults: Faults,
    *,
    api: object,
    error: object,
    times: int | None = 1,
    topic: str | None = None,
    client_id: str | None = None,
) -> Json:
    scope = _scope(api, topic, client_id)
    if scope.api in NOT_REFUSED:
        raise InvalidCommand(f"{scope.api.name} cannot fail as a whole")
    if times is not None and times < 1:
        raise InvalidCommand(f"times must be at least 1, not {times}")
    rule = Failing(scope, _code(error), UNLIMITED if times is None else times)
    return {"id": faults.rules.add(rule)}


def _hold(
    faults: Faults,
    *,
    api: object,
    topic: str | None = None,
    client_id: str | None = None,
    holds_response: bool = False,
) -> Json:
    return {
        "id": faults.rules.add(
            Holding(_scope(api, topic, client_id), holds_response=holds_response)
        )
    }


async def _wait(faults: Faults, *, id: str, timeout_ms: int) -> Json:
    rule = _holding(faults, id)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await rule.arrived.wait()
    except TimeoutError:
        return {"arrived": False}
    return {"arrived": True}


def _release(faults: Faults, *, id: str, lost: bool = False) -> Json:
    _holding(faults, id).release(lost=lost)
    faults.rules.remove(id)
    return {}


def _holding(faults: Faults, id: str) -> Holding:
    try:
        rule = faults.rules[id]
    except KeyError:
        raise InvalidCommand(f"fault {id} is over") from None
    if not isinstance(rule, Holding):
        raise InvalidCommand(f"fault {id} holds no request")
    return rule


def _end(faults: Faults, *, id: str) -> Json:
    faults.end(id)
    return {}


def _kill_at(faults: Faults, *, point: str) -> Json:
    return {"id": faults.set_trap(point)}


def _delay_fsync(faults: Faults, *, ms: int) -> Json:
    if ms < 0:
        raise InvalidCommand(f"a delay of {ms} ms is below 0")
    return {"id": faults.delay_syncs(ms)}


def _fill_disk(faults: Faults, *, patterns: list[str]) -> Json:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidCommand(f"pattern {pattern!r}: {error}") from None
    return {"id": faults.fill_disk(tuple(patterns))}


def _advance(faults: Faults, *, ms: int) -> Json:
    if ms < 0:
        raise InvalidCommand(f"the clock cannot go back by {-ms} ms")
    faults.advance(ms)
    return {}


def _pending(faults: Faults) -> Json:
    return {"rules": len(faults.rules)}


def _clear(faults: Faults) -> Json:
    point = faults.initial_point
    faults.clear()
    return {"initial_point": point}


COMMANDS: Final[dict[str, Callable[..., Json | Awaitable[Json]]]] = {
    "fail": _fail,
    "hold": _hold,
    "wait": _wait,
    "release": _release,
    "end": _end,
    "kill_at": _kill_at,
    "delay_fsync": _delay_fsync,
    "fill_disk": _fill_disk,
    "advance": _advance,
    "clear": _clear,
    "pending": _pending,
}
