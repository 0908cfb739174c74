"""The brokers of a run. All have their default settings, apart from `SETTINGS`, and have folders on
the same disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks import machine
from benchmarks.setups import PLAIN, Setup
from benchmarks.tls_brokers import TlsEndpoint, TlsKafka, TlsOncelog
from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.harness.broker import Oncelog
from tests.harness.kafka.kafka import Kafka

ONCELOG: Final = "oncelog"
KAFKA: Final = "kafka"
AGAINST: Final = "against"
"""The oncelog of another checkout."""

# A heap of 1 GiB. The other options are those of Kafka's own start script.
JVM_OPTIONS = (
    "-Xms1g",
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)

# The loads create and delete many topics. With this delay, deleted topics soon leave the disk and
# the page cache.
SETTINGS = {"log.segment.delete.delay.ms": "1000"}

_LIST_OFFSETS_VERSION = 6
_TOPIC_DEADLINE_S = 180.0


class TargetFailed(Exception):
    """A broker failed during a benchmark. The message has the reason."""


@dataclass(slots=True)
class Target:
    """One of the brokers, running or not.

    `plain` is the same broker without its setup, for a load that measures what the setup costs.
    That load starts `plain`.
    """

    name: str
    broker: Oncelog | Kafka
    plain: Oncelog | None = None
    _topics: int = field(default=0)

    @property
    def address(self) -> str:
        """Return `host:port` for clients."""
        return self.broker.address

    @property
    def port(self) -> int:
        return self.broker.port

    @property
    def pid(self) -> int:
        return self.broker.pid

    @property
    def tls(self) -> TlsEndpoint | None:
        """Return the TLS listener, which the loads then use. Return None for a broker without
        TLS."""
        return self.broker.tls if isinstance(self.broker, TlsOncelog | TlsKafka) else None

    def wire(self) -> Wire:
        """Open a connection for single requests."""
        return Wire(self.address)

    @contextmanager
    def topic(self, partitions: int) -> Iterator[str]:
        """Create a topic and wait until every partition has a leader. Delete the topic at the
        end."""
        self._topics += 1
        name = f"bench-{self._topics:05}"
        with self.wire() as wire:
            wire.socket.settimeout(_TOPIC_DEADLINE_S)
            _create(wire, name, partitions)
            _wait_for_leaders(wire, name, partitions)
        yield name
        with self.wire() as wire:
            wire.socket.settimeout(_TOPIC_DEADLINE_S)
            wire.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=60_000))


Maker = Callable[[Path, Setup], Target | None]
"""Returns a broker of a setup, with its data in the given folder. It is not started. Returns None
for a checkout that does not have what the setup needs."""


def oncelog(settings: Mapping[str, str]) -> Maker:
    """Return the maker of this checkout's oncelog with further settings."""

    def make(directory: Path, setup: Setup) -> Target:
        return oncelog_target(ONCELOG, directory, setup, SETTINGS | dict(settings))

    return make


def oncelog_target(
    name: str,
    directory: Path,
    setup: Setup,
    settings: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> Target:
    """Return an oncelog of a setup. Its `plain` is the same broker without that setup."""
    broker = setup.oncelog(directory / name, settings, environment)
    if setup is PLAIN:
        return Target(name, broker)
    plain = PLAIN.oncelog(directory / f"{name}-plain", settings, environment)
    return Target(name, broker, plain)


def kafka(directory: Path, setup: Setup) -> Target:
    """Return Apache Kafka. It is not started. Raises KafkaUnavailable without Java or Kafka's
    jars."""
    return Target(KAFKA, setup.kafka(directory / KAFKA, SETTINGS, JVM_OPTIONS))


NAMES: Final = (KAFKA, ONCELOG)

Makers = Mapping[str, Maker]
"""The brokers of a run, by name, in the order of the turns."""


@contextmanager
def running(
    makers: Makers, directory: Path, cores: Set[int], setup: Setup = PLAIN
) -> Iterator[list[Target]]:
    """Start these brokers on these cores, in this setup. Stop them at the end."""
    made = [make(directory, setup) for make in makers.values()]
    targets = [target for target in made if target is not None]
    try:
        with machine.on_cores(cores):
            for target in targets:
                target.broker.start()
                setup.complete(target.address)
        yield targets
    finally:
        for target in targets:
            target.broker.kill()


def seconds_to_first_answer(target: Target, cores: Set[int]) -> float:
    """Start a stopped broker, on the data that it has. Return the seconds until it responds to
    ApiVersions."""
    starter = threading.Thread(target=_start_on, args=(target, cores))
    begin = time.monotonic()
    starter.start()
    while not _answers(target):
        if time.monotonic() - begin > _TOPIC_DEADLINE_S:
            raise TargetFailed(f"{target.name} does not start")
        time.sleep(0.002)
    took = time.monotonic() - begin
    starter.join()
    return took


def _start_on(target: Target, cores: Set[int]) -> None:
    with machine.on_cores(cores):
        target.broker.start()


def _answers(target: Target) -> bool:
    try:
        with target.wire() as wire:
            wire.call(ApiVersionsRequest("bench", "1"), 3)
    except (OSError, Closed):
        return False
    return True


def _create(wire: Wire, name: str, partitions: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=120_000))
    result = answer.topics[0]
    if result.error_code != ErrorCode.NONE:
        raise TargetFailed(f"no topic: {ErrorCode(result.error_code).name} {result.error_message}")


def _wait_for_leaders(wire: Wire, name: str, partitions: int) -> None:
    """Wait until each partition responds. Kafka's metadata name a leader before it is ready."""
    places = [ListOffsetsPartition(partition_index=at, timestamp=-1) for at in range(partitions)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=places)])
    deadline = time.monotonic() + _TOPIC_DEADLINE_S
    while time.monotonic() < deadline:
        answers = wire.call(request, _LIST_OFFSETS_VERSION).topics[0].partitions
        if all(answer.error_code == ErrorCode.NONE for answer in answers):
            return
        time.sleep(0.02)
    raise TargetFailed(f"not all of the {partitions} partitions of a topic have a leader")
