"""The clients of a run: a copy loop of librdkafka, one of our own client, and producers of three
libraries. All of them work from the first fault to the last one."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.waiting import wait_until
from tests.torture.access import PlainAccess, Role
from tests.torture.cluster.own_copy_loop import KINDS, OwnCopyLoop
from tests.torture.cluster.timeline import Moments
from tests.torture.cluster.writers import Writer, writers
from tests.torture.run import begin_group, create_topics
from tests.torture.workload import PARTITIONS, Copiers, Feeder, Reader

WRITTEN: Final = "torture-written"
RECORDS_PER_S: Final = 100
COPIERS: Final = 2
COPY_LOOP: Final = "the copy loop"
CALL_S: Final = 30.0
NOT_YET: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


def has_begun(settings: Mapping[str, Any]) -> bool:
    """Commit the first offsets of the copiers' group. Return False if no broker knows yet that it
    coordinates the group."""
    try:
        begin_group(settings)
    except KafkaException as error:
        if error.args[0].code() not in NOT_YET:
            raise
        return False
    return True


class TimedFeeder(Feeder):
    """Has the time of each acknowledgment, and only one value in flight for each partition. With
    more, librdkafka may duplicate values (docs/testing.md, the fourth habit). After an error, which
    is a violation, it continues with a new producer."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings, 0, RECORDS_PER_S)
        self.acknowledged_s: dict[str, float] = {}
        # The partitions without a value in flight. The first has waited longest.
        self._free = deque(range(PARTITIONS))

    def _partition(self) -> int | None:
        return self._free.popleft() if self._free else None

    def _turn(self) -> None:
        try:
            super()._turn()
        except KafkaException as error:
            self.failures.append(f"the feeder: {error}")
            self._producer = Producer(self._config)
            self._free = deque(range(PARTITIONS))

    def _delivered(self, error: Any, message: Any) -> None:
        super()._delivered(error, message)
        self._free.append(message.partition())
        if error is None:
            self.acknowledged_s[message.value().decode()] = time.monotonic()


class Loads:
    """All clients. `start` starts them, `finish` ends the producers, `close` ends what is left."""

    def __init__(
        self, address: str, directory: Path, randomness: random.Random, java: Path | None
    ) -> None:
        self.access = PlainAccess(address)
        settings = self.access.settings(Role.AUDITOR)
        create_topics(settings)
        admin = AdminClient(settings)
        admin.create_topics([NewTopic(WRITTEN, PARTITIONS)])[WRITTEN].result(CALL_S)
        wait_until(lambda: has_begun(settings), "the group's coordinator serves")
        self.feeder = TimedFeeder(settings)
        self.reader = Reader(settings)
        self.copied = Moments()
        self.copiers = Copiers(self.access, COPIERS, randomness, directory)
        self.own = OwnCopyLoop(address, randomness.choice(KINDS), directory / "our-copiers.log")
        self.writers: list[Writer] = writers(address, WRITTEN, PARTITIONS, java)
        self._opened = ExitStack()

    def start(self) -> None:
        self._opened.enter_context(self.copiers)
        self.feeder.start()
        self.reader.start()
        self._opened.callback(self.own.close)
        self.own.start()
        for writer in self.writers:
            writer.start()
            self._opened.callback(writer.stop)

    def counts(self) -> dict[str, int]:
        """Return how often each client has succeeded. Start copiers again that have ended."""
        self.copiers.supervise()
        self.copied.see(self.reader.count)
        return {
            "the feeder": len(self.feeder.written),
            COPY_LOOP: self.reader.count,
            "our copy loop": self.own.copied,
            **{writer.name: len(writer.successes) for writer in self.writers},
        }

    def replace_copiers(self) -> None:
        """Kill the copiers of librdkafka. The next `counts` starts others."""
        self.copiers.kill_all()

    def finish(self) -> None:
        """End the producers. The copiers continue."""
        for writer in self.writers:
            writer.stop()
        self.own.stop_feeding()
        self.feeder.may_end()
        self.feeder.stop()

    def left(self) -> list[tuple[str, Callable[[], int | None]]]:
        """Return what is not copied yet, by copy loop."""

        def left_of_librdkafka() -> int:
            self.counts()
            return max(len(self.feeder.written) - self.reader.count, 0)

        return [
            (COPY_LOOP, left_of_librdkafka),
            ("our copy loop", lambda: max(self.own.left, 0)),
        ]

    def close(self) -> None:
        """End all processes and threads."""
        self.reader.stop()
        self._opened.close()
