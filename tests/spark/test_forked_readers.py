"""A fork for the reads of a stream takes the place of the Python that Spark starts."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from tests.harness.waiting import wait_until
from tests.spark.fail_points import FailPoints
from tests.spark.forked_readers import RUNNER
from tests.spark.processes import is_gone
from tests.spark.session import worker_environment

SECRET = b"secret"


def start_stub(directory: Path, port: int) -> subprocess.Popen[bytes]:
    """Start a reader as Spark's JVM does. `port`: where the JVM waits for the reader."""
    environment = {
        **os.environ,
        **worker_environment(FailPoints(directory)),
        "PYTHON_WORKER_FACTORY_PORT": str(port),
        "PYTHON_WORKER_FACTORY_SECRET": SECRET.decode(),
    }
    return subprocess.Popen(
        [environment["PYSPARK_PYTHON"], "-m", RUNNER],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.parametrize("ends_first", ["JVM", "fork"])
def test_a_fork_connects_to_the_jvm_and_ends_with_it(tmp_path: Path, ends_first: str) -> None:
    """The JVM knows the process that it has started, and the connection of the fork. The process
    ends with the fork."""
    with (
        socket.create_server(("127.0.0.1", 0)) as jvm,
        start_stub(tmp_path, jvm.getsockname()[1]) as stub,
    ):
        jvm.settimeout(60)
        connection, _ = jvm.accept()
        with connection, connection.makefile("rwb") as file:
            assert file.read(4 + len(SECRET)) == struct.pack(">i", len(SECRET)) + SECRET
            file.write(struct.pack(">i", 2) + b"ok")
            file.flush()
            (pid,) = struct.unpack(">i", file.read(4))
            assert pid != stub.pid
            if ends_first == "fork":
                os.kill(pid, signal.SIGKILL)
                stub.wait(60)
        stub.wait(60)
        wait_until(lambda: is_gone(pid), "the fork has ended")


def test_the_output_of_a_fork_is_that_of_the_process(tmp_path: Path) -> None:
    with start_stub(tmp_path, port=1) as stub:
        said, _ = stub.communicate(timeout=60)
    assert b"CANNOT_OPEN_SOCKET" in said or b"refused" in said, said
