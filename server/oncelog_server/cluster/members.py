"""The brokers of a cluster as the metadata image shows them: alive, fenced, draining, with failed
replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from oncelog_protocol.types import uuid_from_string
from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    BrokerRecord,
    ConfigRecord,
    EndpointRecord,
    RegistrationRecord,
)
from oncelog_server.cluster.store import Entry

# A replica: the broker, the id of the topic and the number of the partition.
Replica = tuple[int, bytes, int]


class BrokerImage(msgspec.Struct, frozen=True):
    """A broker that is alive. `epoch` is the revision at which it registered.

    `kept_epochs` are the epochs of its earlier registrations, if its data directory still has every
    record that it had then.
    """

    id: int
    epoch: int
    incarnation: str
    endpoints: tuple[EndpointRecord, ...]
    rack: str | None
    features: Mapping[str, tuple[int, int]]
    directory_id: str = ""
    lease_id: int = 0
    boot_id: str = ""
    kept_epochs: tuple[int, ...] = ()
    version: str = ""

    def endpoint(self, listener: str) -> EndpointRecord | None:
        """Return the broker's address on `listener`, None if it has no such listener.

        Clients may be unable to reach an address of another listener (KIP-103).
        """
        return endpoint_of(self.endpoints, listener)


def endpoint_of(endpoints: Iterable[EndpointRecord], listener: str) -> EndpointRecord | None:
    """Return the endpoint of a listener, None if there is none."""
    return next((found for found in endpoints if found.listener == listener), None)


class Registration(msgspec.Struct, frozen=True):
    """The last registration of a broker, which may be fenced. `epoch` is its broker epoch,
    `revision` the last change of the record."""

    id: int
    epoch: int
    revision: int
    directory_id: str
    endpoints: tuple[EndpointRecord, ...]
    rack: str | None
    clean_stop_epoch: int
    boot_id: str
    flush_on_ack: bool
    kept_epochs: tuple[int, ...]


class ConfigImage(msgspec.Struct, frozen=True):
    """The dynamic settings of a resource, as text by name. `revision` last wrote them."""

    settings: Mapping[str, str]
    revision: int


NO_CONFIG: Final = ConfigImage({}, 0)


def broker_image(broker_id: int, entry: Entry) -> BrokerImage:
    """Return the broker in a record. Raises ValueError if it cannot be decoded."""
    record = records.decode(BrokerRecord, entry.value)
    return BrokerImage(
        broker_id,
        entry.create_revision,
        record.incarnation,
        record.endpoints,
        record.rack,
        record.features,
        record.directory_id,
        record.lease_id,
        record.boot_id,
        record.kept_epochs,
        record.version,
    )


def registration(broker_id: int, entry: Entry) -> Registration:
    """Return the registration in a record. Raises ValueError if it cannot be decoded."""
    record = records.decode(RegistrationRecord, entry.value)
    return Registration(
        broker_id,
        record.broker_epoch or entry.mod_revision,
        entry.mod_revision,
        record.directory_id,
        record.endpoints,
        record.rack,
        record.clean_stop_epoch,
        record.boot_id,
        record.flush_on_ack,
        record.kept_epochs,
    )


def _broker(suffix: str, entry: Entry | None) -> tuple[int, BrokerImage | None]:
    broker_id = int(suffix)
    return broker_id, None if entry is None else broker_image(broker_id, entry)


def _registration(suffix: str, entry: Entry | None) -> tuple[int, Registration | None]:
    broker_id = int(suffix)
    return broker_id, None if entry is None else registration(broker_id, entry)


def _draining(suffix: str, entry: Entry | None) -> tuple[int, int | None]:
    return int(suffix), None if entry is None else entry.create_revision


def _failed(suffix: str, entry: Entry | None) -> tuple[Replica, int | None]:
    broker_id, topic_id, partition = records.failed_replica(records.FAILED + suffix)
    replica = broker_id, uuid_from_string(topic_id), partition
    return replica, None if entry is None else entry.create_revision


def _creating(suffix: str, entry: Entry | None) -> tuple[bytes, int | None]:
    return uuid_from_string(suffix), None if entry is None else entry.create_revision


def _config(suffix: str, entry: Entry | None) -> tuple[str, ConfigImage | None]:
    if entry is None:
        return suffix, None
    return suffix, ConfigImage(
        records.decode(ConfigRecord, entry.value).settings, entry.mod_revision
    )


# The beginning of a key -> the field of ClusterImage, and the function that returns the key and the
# value in this field. The value is None if the key was deleted.
_FIELDS: Final[Mapping[str, tuple[str, Callable[[str, Entry | None], tuple[Any, Any]]]]] = {
    records.BROKERS: ("brokers", _broker),
    records.REGISTRATIONS: ("registrations", _registration),
    records.DRAINING: ("draining", _draining),
    records.FAILED: ("failed", _failed),
    records.CREATING: ("creating", _creating),
    records.CONFIG: ("configs", _config),
}
PREFIXES: Final = tuple(_FIELDS)


class MembersDraft:
    """The next members while they are built. Each mapping is copied at its first change.

    `changed` are the new mappings by the name of the field in ClusterImage.
    """

    def __init__(self) -> None:
        self.changed: dict[str, dict[Any, Any]] = {}

    def apply(self, old: object, key: str, entry: Entry | None) -> None:
        """Apply the change of a key that begins with one of PREFIXES. `old` is the image before all
        changes. Raises ValueError for a malformed key or record."""
        prefix, slash, suffix = key.partition("/")
        name, parse = _FIELDS[prefix + slash]
        mapping = self.changed.get(name)
        if mapping is None:
            mapping = self.changed[name] = dict(getattr(old, name))
        found, value = parse(suffix, entry)
        if value is None:
            mapping.pop(found, None)
        else:
            mapping[found] = value
