"""Forks the processes in which Spark plans the reads of a stream.

Spark starts a Python for each query with a stream, without a daemon. Its imports take 0.2 s of
processor time. So under test the Python that Spark starts is `reader_stub.py`: it asks the process
of this module for a fork, which has all imports, and ends with the fork. The fork has the
environment, the folder and the output of the stub.
"""

from __future__ import annotations

import atexit
import gc
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
# A variable with the name of the socket (`unix(7)`, abstract). All drivers that the process of a
# test starts use the same socket.
READERS: Final = "STREAM_READERS_OF_TESTS"

_ROOT: Final = Path(__file__).resolve().parents[2]
_LARGEST_REQUEST: Final = 1 << 18


def stream_readers() -> str:
    """Return the value of READERS. Start the process if there is none."""
    if READERS not in os.environ:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind("")
            listening.listen(64)
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(listening.fileno())],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                pass_fds=[listening.fileno()],
            )
            os.environ[READERS] = listening.getsockname()[1:].decode()
        # The process ends with its standard input.
        atexit.register(process.communicate)
    return os.environ[READERS]


def _serve(listening: socket.socket) -> None:
    """Fork for each request. Return only in a fork."""
    while True:
        ready, _, _ = select.select([0, listening.fileno()], [], [])
        if 0 in ready:
            os._exit(0)
        connection, _ = listening.accept()
        request, streams, _, _ = socket.recv_fds(connection, _LARGEST_REQUEST, 3)
        if request and not os.fork():
            listening.close()
            connection.detach()  # stays open until the fork ends
            _become_reader(request, streams)
            return
        for descriptor in streams:
            os.close(descriptor)
        connection.close()


def _become_reader(request: bytes, streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    directory, *variables = request.split(b"\0")
    os.chdir(directory)
    os.environb.clear()
    for variable in variables:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    # The kernel collects the ended forks. A Ctrl-C of the terminal reaches all processes.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in (
        RUNNER,
        "oncelog_client.spark.data_source",
        "oncelog_client.spark.source.stream_reader",
    ):
        import_module(module)
    del sys.modules[RUNNER]  # a fork runs it as its main module
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv[:] = [RUNNER]
    runpy.run_module(RUNNER, run_name="__main__", alter_sys=True)
    # Do not free the modules, which takes 0.02 s of processor time.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
