"""Clusters for tests: a metadata image, and the changes that a metadata store would make to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage, PartitionImage
from oncelog_server.cluster.registration import NewRegistration, register
from oncelog_server.cluster.store import (
    Changes,
    Compare,
    Created,
    Delete,
    Entry,
    Event,
    Put,
    Write,
    WriteOperation,
    Written,
    check_limits,
)
from oncelog_server.cluster.topics import NewTopic, create_topic
from oncelog_server.cluster.write_sequence import FIRST_WRITE
from oncelog_server.settings.model import Settings


class Cluster:
    """A metadata store without an event loop. `apply` gives each write its own revision, in
    order."""

    def __init__(self, brokers: Iterable[int] = (1,)) -> None:
        self.entries: dict[str, Entry] = {}
        self.image = ClusterImage()
        # Topics that the writes changed.
        self.names: dict[str, None] = {}
        self.ids = 0
        for broker in brokers:
            self.register(broker)
        controller = records.encode(records.ControllerRecord(1))
        self.apply([Write((), (Put(records.CONTROLLER, controller),))])

    def register(
        self,
        broker: int,
        *,
        directory: str = "",
        boot: str = "",
        clean_stop: int = 0,
        flush_on_ack: bool = False,
        rack: str | None = None,
    ) -> None:
        """Register a broker that is not alive. Without a boot id, it may have lost records since
        its last registration, unless `clean_stop` is the epoch of that registration."""
        endpoint = records.EndpointRecord("PLAINTEXT", f"host{broker}", 9092)
        new = NewRegistration(
            broker,
            directory or f"directory-{broker}",
            "incarnation",
            (endpoint,),
            rack,
            {},
            boot,
            clean_stop,
            flush_on_ack,
        )
        assert self.apply([register(self.image.registrations.get(broker), new, 0)])

    def stop(self, *brokers: int) -> None:
        """End the leases of brokers."""
        keys = [records.broker_key(broker) for broker in brokers]
        keys += [records.draining_key(broker) for broker in brokers]
        self.apply([Write((), tuple(Delete(key) for key in keys))])

    def restart(self, broker: int, *, boot: str = "", clean_stop: int = 0) -> None:
        """Register a broker again before the controller has seen that it was not alive."""
        self.stop(broker)
        self.register(broker, boot=boot, clean_stop=clean_stop)

    def drain(self, broker: int) -> None:
        value = records.encode(records.DrainingRecord())
        self.apply([Write((), (Put(records.draining_key(broker), value),))])

    def partition(self, topic: str, number: int = 0) -> PartitionImage:
        found = self.image.partition(topic, number)
        assert found is not None
        return found

    def put_partition(self, topic: str, record: records.PartitionRecord, number: int = 0) -> None:
        self.put(
            records.partition_key(self.image.topics[topic].id_text, number), records.encode(record)
        )

    def put(self, key: str, value: bytes) -> None:
        self.apply([Write((), (Put(key, value),))])

    def new_id(self) -> bytes:
        self.ids += 1
        return self.ids.to_bytes(16, "big")

    def create(self, name: str, partitions: int = 1, replicas: int = 1) -> bytes:
        topic_id = self.new_id()
        new = NewTopic(name, partitions, replicas)
        assert self.apply(create_topic(self.image, Settings(), new, topic_id)[1])
        return topic_id

    def apply(self, writes: Sequence[Write]) -> bool:
        """Apply the writes. Return True if no write was stale."""
        for write in writes:
            check_limits(write.compare, write.operations)
            if not all(map(self._holds, write.compare)):
                return False
            revision = self.image.revision + 1
            events = tuple(self._event(operation, revision) for operation in write.operations)
            self.image, names = self.image.next([Changes(revision, events)])
            self.names |= dict.fromkeys(names)
        return True

    def _event(self, operation: WriteOperation, revision: int) -> Event:
        before = self.entries.pop(operation.key, None)
        if not isinstance(operation, Put):
            return Event(operation.key, None)
        created = before.create_revision if before else revision
        entry = Entry(operation.key, operation.value, created, revision)
        self.entries[operation.key] = entry
        return Event(operation.key, entry)

    def _holds(self, condition: Compare) -> bool:
        entry = self.entries.get(condition.key)
        if isinstance(condition, Written) and condition.mod_revision == FIRST_WRITE:
            return entry is not None and entry.mod_revision == entry.create_revision
        if isinstance(condition, Created):
            return (entry.create_revision if entry else 0) == condition.create_revision
        return (entry.mod_revision if entry else 0) == condition.mod_revision
