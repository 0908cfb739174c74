"""Processes that share one import of the sources: brokers, and our tools with Kafka's names.

A template process imports the program, and forks for each start. A forked process is a process of
its own, with its own environment, folder and output, and it dies by a signal as any other process.
A forked start of a broker takes 0.03 s of processor time. A start as `python -m oncelog_server`
takes 0.4 s.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from tempfile import TemporaryFile
from typing import BinaryIO, Final

from oncelog.testing.broker import PROGRAM

BROKER: Final = PROGRAM[-1]
TOOLS: Final = "oncelog_client.kafka_tools"

# Variables with these beginnings take effect when an interpreter starts.
_OF_THE_INTERPRETER: Final = ("PYTHON", "LD_")

# What the command line of a broker imports before it starts the broker.
_OF_THE_START: Final = (
    "oncelog_server.garbage",
    "oncelog_server.observe.logs",
    "oncelog_server.startup.interruptible_start",
    "uvloop",
)

_LARGEST_REQUEST: Final = 1 << 18
# What a pipe holds without a reader.
_LARGEST_INPUT: Final = 1 << 16


class PreloadedProcess:
    """A forked process, with the methods of Popen that tests use. `returncode` is negative after a
    signal."""

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises TimeoutExpired after `timeout` seconds."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            assert self._status.fileno() >= 0, f"the process that reports for {self.pid} has ended"
            self._status.settimeout(timeout)
            with suppress(BlockingIOError, TimeoutError):
                said = self._status.recv(64)
                self._status.close()
                assert said, f"the process that reports for {self.pid} has ended"
                self.returncode = int(said)
        return self.returncode


def can_be_forked(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return True if this command would start the same program, sources and interpreter as a fork
    of the template."""
    return tuple(command[: len(PROGRAM)]) == PROGRAM and _interpreter(environment) == _interpreter(
        os.environ
    )


def _interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in environment.items() if name.startswith(_OF_THE_INTERPRETER)
    }


def start_preloaded(
    command: Sequence[str], environment: Mapping[str, str], output: BinaryIO, log: BinaryIO
) -> PreloadedProcess:
    """Start a broker's command as a fork of the template (see `can_be_forked`)."""
    arguments = command[len(PROGRAM) :]
    with open(os.devnull, "rb") as nothing:
        return _fork(BROKER, arguments, environment, (nothing, output, log))


def run_preloaded_tool(
    words: Sequence[str], text: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run one of our tools with a text of up to 64 KiB as its input, as a fork of the template.
    `words`: the tool's name and arguments. Raises TimeoutExpired."""
    given = text.encode()
    assert len(given) <= _LARGEST_INPUT
    reading, writing = os.pipe()
    with open(reading, "rb") as source, TemporaryFile() as output, TemporaryFile() as log:
        with open(writing, "wb") as pipe:
            pipe.write(given)
        process = _fork(TOOLS, words, os.environ, (source, output, log))
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
            process.wait()
        printed = []
        for file in (output, log):
            file.seek(0)
            printed.append(file.read().decode())
    return subprocess.CompletedProcess([*words], code, *printed)


def _fork(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    streams: tuple[BinaryIO, BinaryIO, BinaryIO],
) -> PreloadedProcess:
    # As with Popen, a test without the marker `process` fails here: see `tests.lanes`.
    sys.audit("subprocess.Popen", sys.executable, arguments, None, environment)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with theirs:
            request = json.dumps([[*arguments], {**environment}, os.getcwd()])
            descriptors = [*(stream.fileno() for stream in streams), theirs.fileno()]
            socket.send_fds(_template(program), [request.encode()], descriptors)
        pid = ours.recv(64)
        assert pid, f"the template of {program} has ended"
    except BaseException:
        ours.close()
        raise
    return PreloadedProcess(int(pid), ours)


@cache
def _template(program: str) -> socket.socket:
    """Return the connection to the template of BROKER or TOOLS. The template ends with the
    connection."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno()), program],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# The template.


def _serve(requests: socket.socket) -> list[str]:
    """Fork for each request. Return only in a forked process, with its command line."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _LARGEST_REQUEST, 4)
        if not request:
            os._exit(0)
        if not os.fork():
            requests.close()
            return _become_program(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _become_program(request: bytes, descriptors: list[int]) -> list[str]:
    """Fork the program. The parent reports the program's id and exit code. Return in the program,
    with its command line."""
    arguments, environment, directory = json.loads(request)
    *streams, status = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        _report(pid, status)
    os.close(status)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, max(descriptors) + 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    return list(arguments)


def _report(pid: int, status: int) -> None:
    os.write(status, str(pid).encode())
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    with suppress(BrokenPipeError):
        os.write(status, str(code).encode())
    # Keep the process id in use until the test knows of the end and sends no more signals to it.
    os.read(status, 1)
    os.waitpid(pid, 0)
    os._exit(0)


@contextmanager
def _quick_end() -> Iterator[None]:
    """End the process with the exit code of the program. As at the end of each process, threads are
    joined and the functions of `atexit` run. The interpreter does not free its modules, which takes
    0.02 s of processor time."""
    try:
        yield
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code or 0)


def main() -> None:
    # The kernel collects the ended child processes, which reported the exit codes of the programs.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # A Ctrl-C of the terminal reaches all processes. This one ends with its connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection, program = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    {BROKER: _serve_brokers, TOOLS: _serve_tools}[program](connection)


def _serve_brokers(connection: socket.socket) -> None:
    from oncelog_server.__main__ import main as command_line
    from oncelog_server.late.late_imports import MODULES

    for module in ("oncelog_server.broker", *_OF_THE_START, *MODULES):
        import_module(module)
    gc.freeze()
    sys.argv[1:] = _serve(connection)
    with _quick_end():
        command_line(prog_name="oncelog_server")


def _serve_tools(connection: socket.socket) -> None:
    from oncelog_client.kafka_tools import tools
    from oncelog_client.process import run

    for module in tools.TOOLS.values():
        import_module(f"oncelog_client.kafka_tools.{module}")
    gc.freeze()
    sys.argv[1:] = _serve(connection)
    with _quick_end():
        run(tools.main)


if __name__ == "__main__":
    main()
