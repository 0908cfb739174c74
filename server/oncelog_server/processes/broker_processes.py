"""Runs several brokers on this machine, each in a process of its own (`oncelog serve --brokers`).

The first broker serves the metadata to the others, so it stops last. A process that dies is started
again. If this process dies, the brokers see the end of their links to it, and stop.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

import click
import structlog

from oncelog_server.processes.parent_link import SERVES, ParentLink

log = structlog.get_logger("oncelog")

# Options of `oncelog serve`, and the arguments of `load_settings` for them.
OPTIONS: Final = {
    "--config": "config_file",
    "--port": "port",
    "--data": "data",
    "--brokers": "brokers",
}
FIRST: Final = 1
# A process that dies is started at once, and after a pause if it dies again soon.
STEADY_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.5
LAST_PAUSE_S: Final = 10.0
# Signals within this time count as one; see `oncelog_server.serve`.
SAME_MOMENT_S: Final = 0.1
ENDED_BY_FORCE: Final = 130


class _Broker:
    """One process, and this end of its link."""

    def __init__(self, process: asyncio.subprocess.Process, link: socket.socket) -> None:
        self.process = process
        self._link = link

    async def ended(self) -> int:
        """Return the exit code of the process, when it has ended."""
        return await self.process.wait()

    def has_served(self) -> bool:
        """Return True if the process has served. Ask once, when the process has ended."""
        try:
            return self._link.recv(1) == SERVES
        except (BlockingIOError, ConnectionResetError):
            return False
        finally:
            self._link.close()


class BrokerProcesses:
    """The processes of the brokers 1 to `count`. `command(number, descriptor)` is the command line
    of a broker, with the descriptor of its end of the link."""

    def __init__(self, count: int, command: Callable[[int, int], Sequence[str]]) -> None:
        self._count = count
        self._command = command
        self._running: dict[int, _Broker] = {}
        self._stopping = asyncio.Event()
        self._signalled_s = 0.0
        # The exit code after a refused first start or a second signal, else 0.
        self._refused = 0

    async def run(self, parent_link: int | None = None) -> int:
        """Run the brokers until a signal stops them, or one of them refuses its first start, or the
        process at the other end of `parent_link` ends. Return the exit code. Raises OSError if a
        process cannot be started."""
        loop = asyncio.get_running_loop()
        if parent_link is not None:
            ParentLink(parent_link, self._stopping.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        keeping = [
            asyncio.create_task(self._keep(number)) for number in range(FIRST, self._count + 1)
        ]
        for task in keeping:
            task.add_done_callback(self._on_kept)
        await self._stopping.wait()
        await self._stop()
        await asyncio.wait(keeping)
        for task in keeping:
            task.result()
        return self._refused

    def _on_kept(self, task: asyncio.Task[None]) -> None:
        """Stop all brokers if the process of one of them cannot be started, for example for lack of
        memory. `run` raises the exception at its end."""
        if task.exception() is not None:
            self._stopping.set()

    async def _keep(self, number: int) -> None:
        """Start a broker again whenever its process has died."""
        loop = asyncio.get_running_loop()
        serves_once = False
        pause_s = 0.0
        while not self._stopping.is_set():
            started_s = loop.time()
            broker = self._running[number] = await self._start(number)
            if self._stopping.is_set():  # `_stop` did not see this process
                broker.process.terminate()
            code = await broker.ended()
            del self._running[number]
            serves_once = broker.has_served() or serves_once
            if self._stopping.is_set():
                return
            if not serves_once:
                self._refused = code if code > 0 else 1
                self._stopping.set()
                return
            log.error("a broker has ended and is started again", broker=number, code=code)
            if loop.time() - started_s > STEADY_S:
                pause_s = 0.0
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
            pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), LAST_PAUSE_S)

    async def _start(self, number: int) -> _Broker:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with ExitStack() as failed, theirs:
            failed.callback(ours.close)
            process = await asyncio.create_subprocess_exec(
                *self._command(number, theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                # Ctrl-C signals the processes of its terminal's foreground group. Only this process
                # stops the brokers, because the first broker must stop last.
                process_group=0,
            )
            failed.pop_all()
        return _Broker(process, ours)

    async def _stop(self) -> None:
        """Stop all brokers, the first broker last."""
        first = self._running.get(FIRST)
        others = [broker for number, broker in self._running.items() if number != FIRST]
        for stopped in (others, [first] if first is not None else []):
            for broker in stopped:
                if broker.process.returncode is None:
                    broker.process.terminate()
            for broker in stopped:
                await broker.ended()

    def _on_signal(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if not self._stopping.is_set():
            self._signalled_s = now_s
            self._stopping.set()
        elif now_s - self._signalled_s > SAME_MOMENT_S:
            self._refused = ENDED_BY_FORCE
            for broker in self._running.values():
                if broker.process.returncode is None:
                    broker.process.kill()


def command_line(sources: Mapping[str, Any], *, debug: bool, allow_faults: bool) -> list[str]:
    """Return the options of `oncelog serve` that give these arguments of `load_settings`."""
    options: list[str] = []
    for option, name in OPTIONS.items():
        if sources.get(name) is not None:
            options += [option, str(sources[name])]
    for assignment in sources["assignments"]:
        options += ["--set", assignment]
    return options + ["--debug"] * debug + ["--allow-faults"] * allow_faults


def run_brokers(count: int, options: Sequence[str], parent_link: int | None = None) -> int:
    """Run brokers with the same options until a signal stops them, or the process at the other end
    of the descriptor `parent_link` ends. Return the exit code."""

    def command(number: int, descriptor: int) -> list[str]:
        own = ["--member", str(number), "--parent-link", str(descriptor)]
        # -P: no module of the present directory is imported.
        return [sys.executable, "-P", "-m", "oncelog_server", "serve", *options, *own]

    try:
        return asyncio.run(BrokerProcesses(count, command).run(parent_link))
    except OSError as error:
        click.echo(f"oncelog cannot start its brokers: {error}", err=True)
        return 1
