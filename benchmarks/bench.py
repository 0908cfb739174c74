"""The context of a load: a broker, the length of a round, and the programs that produce the
load."""

from __future__ import annotations

import sys
from collections.abc import Callable, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import machine
from benchmarks.loadgen import run_connector, run_load, run_loadgen
from benchmarks.requests import Entry, write_entries
from benchmarks.targets import Target

MB: Final = 1_000_000
SMALL_VALUE: Final = 100
KB_VALUE: Final = 1024


@dataclass(frozen=True, slots=True)
class Pace:
    """The length of a round: a time, and for large data also a number of bytes.

    `max_bytes` limits the data that a round writes, and the data in the topic of a reading load.
    `consumed_bytes` is the least that a reading round reads. `records` is the length of a round of
    Java's producer, which counts records instead of time. `pairs` is the number of brokers that a
    round of `acl1000` starts with access rules, and without them.
    """

    seconds: float
    max_bytes: int
    consumed_bytes: int
    records: int
    partitions: int = 10_000
    producers: int = 10_000
    connections: int = 5_000
    pairs: int = 4


FULL: Final = Pace(3.0, max_bytes=2_000 * MB, consumed_bytes=4_000 * MB, records=1_500_000)
QUICK: Final = Pace(
    1.0,
    max_bytes=200 * MB,
    consumed_bytes=200 * MB,
    records=100_000,
    partitions=100,
    producers=100,
    connections=100,
    pairs=1,
)

Cores = Set[int]
Figures = dict[str, float]
Round = Callable[[Cores], Figures]
"""Runs the load on these cores. Returns the figures by name. The warm-up of a broker
compares the first figure of its rounds."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The context of a load: the broker, the length of a round, a folder for files."""

    target: Target
    pace: Pace
    folder: Path

    @property
    def address(self) -> str:
        """Return the address for the clients of the load: of the TLS listener if there is one."""
        return self.target.address if self.target.tls is None else self.target.tls.address

    def requests(self, entries: list[Entry]) -> Path:
        """Write these requests to a file for the load generator."""
        return write_entries(self.folder / f"{self.target.name}.requests", entries)

    def loadgen(self, mode: str, requests: Path, cores: Cores, **options: float) -> Figures:
        """Run the load generator, over TLS if the broker has it. Add the broker's CPU time to its
        figures."""
        words = {name.replace("_", "-"): value for name, value in options.items()}
        words = {"seconds": self.pace.seconds} | words
        tls = self.target.tls
        port = self.target.port if tls is None else tls.port
        with_tls = tls is not None
        return self.with_cpu(
            lambda: run_loadgen(mode, port, requests, cores, words, with_tls=with_tls)
        )

    def connector(self, mode: str, requests: Path, cores: Cores, **options: float) -> Figures:
        """Run the load generator of new connections to a broker with TLS. Add the broker's CPU time
        to its figures."""
        tls = self.target.tls
        assert tls is not None
        port = tls.port
        words = {"seconds": self.pace.seconds} | options
        return self.with_cpu(lambda: run_connector(mode, port, requests, cores, words))

    def librdkafka(self, mode: str, topic: str, cores: Cores, *words: str) -> Figures:
        """Run librdkafka, over TLS if the broker has it. Add the broker's CPU time to its
        figures."""
        command = [sys.executable, "-m", "benchmarks.rdload", mode, self.address, topic]
        command += [f"--seconds={self.pace.seconds}", *words]
        if self.target.tls is not None:
            command.append(f"--authority={self.target.tls.authority}")
        return self.with_cpu(lambda: run_load(command, cores))

    def with_cpu(self, run: Callable[[], Figures]) -> Figures:
        """Run a load. Add the broker's CPU time to its figures."""
        before = machine.cpu_seconds(self.target.pid)
        found = run()
        return found | {"broker_cpu_s": machine.cpu_seconds(self.target.pid) - before}


Load = Callable[[Bench], AbstractContextManager[Round]]
"""Returns a context manager that prepares what all rounds of the load share, and yields the
function that runs one round."""
