"""Producers of Java's client and of franz-go, like those of `steady_clients.py`."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.steady_clients import CALL_S, Writing
from tests.conformance.clients.interface import Record
from tests.conformance.clients.java import Java
from tests.harness.kafka.driver import JavaDriver

_GO: Final = Path(__file__).with_name("franz_go")
BUILD_S: Final = 300.0


class JavaTransactionalProducer(Writing):
    """Java's client with a transaction for every two records. It has a JVM of its own."""

    def __init__(self, address: str, topic: str, partitions: int, folder: Path) -> None:
        super().__init__(type(self).__name__, address, topic)
        self._partitions = partitions
        self._partition = 0
        self._driver = JavaDriver(folder)

    def open(self) -> None:
        self._producer = Java(self._driver).producer(self.address, transactional_id=self.name)
        self._producer.init_transactions()

    def step(self) -> None:
        values = [self.value(), self.value()]
        self._producer.begin()
        # The driver sends to the partition of each record.
        self._partition = (self._partition + 1) % self._partitions
        record = partial(Record, partition=self._partition)
        self._producer.send(self.topic, [record(value.encode()) for value in values])
        self._producer.commit()
        self.written += values
        self.succeeded()

    def close(self) -> None:
        self._producer.close()
        self._driver.close()


class FranzGoProducer(Writing):
    """franz-go in a process of its own: idempotent, or with a transaction for every two records."""

    def __init__(self, program: Path, address: str, topic: str, kind: str) -> None:
        super().__init__(f"FranzGo-{kind}", address, topic)
        self._command = [str(program), address, topic, self.name, kind]

    def open(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def step(self) -> None:
        assert self._process.stdout is not None
        self._take(self._process.stdout.readline())

    def _take(self, line: str) -> None:
        value = line.removesuffix("\n")
        if not value.startswith(self.name):
            raise RuntimeError(value or "franz-go has ended")
        self.written.append(value)
        self.succeeded()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        for line in self._process.stdout:
            self._take(line)
        self._process.stdout.close()
        self._process.wait(CALL_S)


def built_franz_go(folder: Path) -> Path:
    """Return the program of `franz_go`. Skip the test without Go or its modules."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    program = folder / "franz-go"
    done = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=_GO,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
    )
    if done.returncode:
        pytest.skip(f"franz-go cannot be built: {done.stderr[-500:]}")
    return program
