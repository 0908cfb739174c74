"""Topics of a cluster: their creation, their leaders and their replicas in sync."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.targets import TargetFailed
from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)

REPLICAS: Final = 3
DEADLINE_S: Final = 300.0
PAUSE_S: Final = 0.02
_METADATA_VERSION: Final = 12
_LIST_OFFSETS_VERSION: Final = 6
_TIMEOUT_MS: Final = 120_000
# What a broker responds while its image, or its log, is not ready.
_NOT_YET: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. `bootstrap`: the addresses of all brokers of the cluster."""

    bootstrap: str
    name: str
    partitions: int

    def leaders(self) -> dict[str, list[int]]:
        """Return the partitions that each address leads. Raises TargetFailed if no broker
        responds, or if a partition has no leader."""
        addresses, found = self._described()
        led: dict[str, list[int]] = {}
        for partition in found:
            if partition.leader_id not in addresses:
                raise TargetFailed(f"{self.name}-{partition.partition_index} has no leader")
            led.setdefault(addresses[partition.leader_id], []).append(partition.partition_index)
        return led

    def leader_of(self, partition: int) -> int:
        """Return the id of a partition's leader, -1 without one."""
        found: int = self._described()[1][partition].leader_id
        return found

    def await_in_sync(self, deadline_s: float = DEADLINE_S) -> None:
        """Wait until each partition has all its replicas in sync."""
        self._await("in sync", self._is_in_sync, deadline_s)

    def await_served(self, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the leader of each partition responds. The metadata may name a leader before
        it is ready."""
        self._await("served", self._is_served, deadline_s)

    def is_in_sync(self) -> bool:
        return self._is_in_sync()

    def _await(self, what: str, holds: object, deadline_s: float) -> None:
        assert callable(holds)
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            try:
                if holds():
                    return
            except (OSError, Closed, TargetFailed):
                pass  # a broker has ended, or is not ready
            time.sleep(PAUSE_S)
        raise TargetFailed(f"not all of {self.partitions} partitions are {what}")

    def _is_in_sync(self) -> bool:
        _, found = self._described()
        return len(found) == self.partitions and all(
            len(partition.isr_nodes) == len(partition.replica_nodes) for partition in found
        )

    def _is_served(self) -> bool:
        led = self.leaders()
        if sum(map(len, led.values())) != self.partitions:
            return False
        for address, partitions in led.items():
            places = [ListOffsetsPartition(partition_index=at, timestamp=-1) for at in partitions]
            request = ListOffsetsRequest(topics=[ListOffsetsTopic(self.name, places)])
            with Wire(address) as wire:
                answer = wire.call(request, _LIST_OFFSETS_VERSION)
            if any(place.error_code for place in answer.topics[0].partitions):
                return False
        return True

    def _described(self) -> tuple[dict[int, str], list[MetadataResponsePartition]]:
        """Return the addresses of the brokers that live, and the partitions, from the first broker
        that responds. Raises TargetFailed."""
        for address in self.bootstrap.split(","):
            request = MetadataRequest([MetadataRequestTopic(name=self.name)], False)
            try:
                with Wire(address) as wire:
                    answer = wire.call(request, _METADATA_VERSION)
            except (OSError, Closed):
                continue
            brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
            partitions = answer.topics[0].partitions
            return brokers, sorted(partitions, key=lambda found: found.partition_index)
        raise TargetFailed(f"no broker of {self.bootstrap} responds")


@contextmanager
def created_topic(bootstrap: str, name: str, partitions: int) -> Iterator[Topic]:
    """Create a topic. Its partitions have brokers 1 to 3 as leaders in turn. Delete it at the
    end."""
    topic = Topic(bootstrap, name, partitions)
    assignments = [
        CreatableReplicaAssignment(at, [(at + step) % REPLICAS + 1 for step in range(REPLICAS)])
        for at in range(partitions)
    ]
    creatable = CreatableTopic(name, -1, -1, assignments)
    with _wire(bootstrap) as wire:
        answer = wire.call(CreateTopicsRequest([creatable], _TIMEOUT_MS))
    result = answer.topics[0]
    if result.error_code != ErrorCode.NONE:
        raise TargetFailed(f"no topic: {ErrorCode(result.error_code).name} {result.error_message}")
    topic.await_in_sync()
    topic.await_served()
    yield topic
    with _wire(bootstrap) as wire:
        wire.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=_TIMEOUT_MS))


def _wire(bootstrap: str) -> Wire:
    """Open a connection to the first broker that accepts one. Raises TargetFailed."""
    for address in bootstrap.split(","):
        try:
            wire = Wire(address)
        except OSError:
            continue
        wire.socket.settimeout(_TIMEOUT_MS / 1000)
        return wire
    raise TargetFailed(f"no broker of {bootstrap} accepts connections")
