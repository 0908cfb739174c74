"""The clients of a torture run: a feeder and a reader in threads, and copiers in processes."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.torture.access import Access, Role
from tests.torture.copier import INPUT, OUTPUT, RECONNECT

PARTITIONS = 9
READERS = "torture-readers"
FLUSH_TIMEOUT_S = 60.0


class Broker(Protocol):
    """A broker process that can be killed and started again."""

    @property
    def address(self) -> str: ...

    def spawn(self) -> object: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...

    @property
    def pid(self) -> int: ...


class _Thread(ABC):
    """A loop in a thread. `stop` re-raises an exception of the loop."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
            self._end()
        except BaseException as error:
            self._error = error

    @abstractmethod
    def _turn(self) -> None: ...

    @abstractmethod
    def _end(self) -> None:
        """Do the remaining work after `stop`."""


class Feeder(_Thread):
    """Writes at least `total` unique values idempotently, and continues until `may_end` is called.
    `written`: the acknowledged values."""

    def __init__(self, settings: Mapping[str, Any], total: int, records_per_s: int) -> None:
        super().__init__("feeder")
        self.written: Counter[str] = Counter()
        self.failures: list[str] = []
        self._number = 0
        self._may_end = threading.Event()
        self._total = total
        self._pause_s = 1 / records_per_s
        self._config = {
            **settings,
            "enable.idempotence": True,
            "linger.ms": 2,
            "message.timeout.ms": 0,  # 0: no limit, so that no value expires
            **RECONNECT,
        }
        self._producer = Producer(self._config)

    @property
    def is_done(self) -> bool:
        """Return True if the producer has got `total` values or more, and the feeder may end."""
        return self._number >= self._total and self._may_end.is_set()

    def may_end(self) -> None:
        """Allow the end once the producer has got `total` values."""
        self._may_end.set()

    def _turn(self) -> None:
        self._stopping.wait(self._pause_s)
        if self.is_done:
            self._producer.poll(0)
            return
        partition = self._partition()
        if partition is None:
            self._producer.poll(0)
            return
        value = f"{self._number:07}"
        self._number += 1
        self._producer.produce(INPUT, value, partition=partition, on_delivery=self._delivered)
        self._producer.poll(0)

    def _partition(self) -> int | None:
        """Return the partition of the next value, None if no value may be sent now."""
        return self._number % PARTITIONS

    def _end(self) -> None:
        if self._producer.flush(FLUSH_TIMEOUT_S):
            self.failures.append(f"not acknowledged within {FLUSH_TIMEOUT_S} s")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.written[message.value().decode()] += 1


class Reader(_Thread):
    """Reads the output as a read_committed reader during the whole run. `read`: the values in their
    order."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__("reader")
        self.read: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
        self._consumer = Consumer(
            {
                **settings,
                "group.id": READERS,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                **RECONNECT,
            }
        )
        places = [TopicPartition(OUTPUT, partition, 0) for partition in self.read]
        self._consumer.assign(places)

    @property
    def count(self) -> int:
        """Return the number of records read so far."""
        return sum(map(len, self.read.values()))

    def _turn(self) -> None:
        for message in self._consumer.consume(500, 0.1):
            if message.error() is None:
                self.read[message.partition()].append(message.value().decode())

    def _end(self) -> None:
        self._consumer.close()


class Copiers:
    """The copier processes. `supervise` starts a copier again after it ended or was killed."""

    def __init__(
        self, access: Access, count: int, randomness: random.Random, directory: Path
    ) -> None:
        self._settings = directory / "copiers.json"
        self._settings.write_text(json.dumps(access.settings(Role.COPIER)))
        self._randomness = randomness
        self._log = directory / "copiers.log"
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * count
        self.restarts = 0

    def supervise(self) -> None:
        """Start every copier that is not running."""
        for number, process in enumerate(self._processes):
            if process is not None and process.poll() is None:
                continue
            self.restarts += process is not None
            seed = str(self._randomness.random())
            command = [sys.executable, "-m", "tests.torture.copier"]
            with self._log.open("ab") as log:
                self._processes[number] = subprocess.Popen(
                    [*command, str(self._settings), str(number), seed], stdout=log, stderr=log
                )

    def kill_one(self) -> bool:
        """Send SIGKILL to a random copier at any moment of its work. Return False if it was
        dead."""
        process = self._randomness.choice(self._processes)
        if process is None:
            return False
        process.kill()
        return process.wait() == -signal.SIGKILL

    def kill_all(self) -> None:
        """Send SIGKILL to all copiers."""
        for process in self._processes:
            if process is not None:
                process.kill()
                process.wait()

    @contextmanager
    def one_suspended(self) -> Iterator[bool]:
        """Send SIGSTOP to a random copier, and SIGCONT at the end of the block. Yield False if it
        was dead."""
        process = self._randomness.choice(self._processes)
        if process is None or process.poll() is not None:
            yield False
            return
        process.send_signal(signal.SIGSTOP)
        try:
            yield True
        finally:
            process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Copiers:
        self.supervise()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill_all()
