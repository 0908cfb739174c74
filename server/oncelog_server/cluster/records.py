"""What the metadata store holds: one small JSON record per key."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

R = TypeVar("R")


class EndpointRecord(msgspec.Struct, frozen=True):
    """The address clients of one listener are told."""

    listener: str
    host: str
    port: int


class BrokerRecord(msgspec.Struct, frozen=True):
    """`brokers/<id>`, leased; its create revision is the broker epoch.

    `features` are the versions the broker supports, as name -> [lowest, highest].
    """

    incarnation: str
    endpoints: tuple[EndpointRecord, ...]
    rack: str | None = None
    features: dict[str, tuple[int, int]] = {}


class ControllerRecord(msgspec.Struct, frozen=True):
    """`controller`, leased; its create revision is the controller epoch."""

    broker_id: int


class ClusterRecord(msgspec.Struct, frozen=True):
    """`cluster`: written once."""

    id: str


class TopicRecord(msgspec.Struct, frozen=True):
    """`topics/<name>`. A topic has the partitions 0 to `partitions` - 1, whatever keys there are.

    What does not fit one transaction is written before its topic, and removed after it.
    """

    id: str
    partitions: int
    settings: dict[str, str] = {}


class PartitionRecord(msgspec.Struct, frozen=True):
    """`partitions/<topic id>/<n>`; its mod revision is the partition epoch. Leader -1: none."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class DeletionRecord(msgspec.Struct, frozen=True):
    """`deletions/<topic id>`: a topic that was deleted, kept until its folders are gone. A folder
    of no topic is put aside only if it belongs to one of these."""

    name: str
    partitions: int


class ProducerIdsRecord(msgspec.Struct, frozen=True):
    """`producer_ids`: the first id that was never given out."""

    next_producer_id: int


class FeaturesRecord(msgspec.Struct, frozen=True):
    """`features`: the finalized levels; the mod revision is their epoch."""

    levels: dict[str, int]


class ConfigRecord(msgspec.Struct, frozen=True):
    """`config/<resource>/<name>`: dynamic settings."""

    settings: dict[str, str]


CLUSTER: Final = "cluster"
CONTROLLER: Final = "controller"
FEATURES: Final = "features"
PRODUCER_IDS: Final = "producer_ids"
BROKERS: Final = "brokers/"
TOPICS: Final = "topics/"
PARTITIONS: Final = "partitions/"
DELETIONS: Final = "deletions/"


def broker_key(broker_id: int) -> str:
    return f"{BROKERS}{broker_id}"


def topic_key(name: str) -> str:
    return f"{TOPICS}{name}"


def partition_key(topic_id: str, partition: int) -> str:
    """`topic_id` in Kafka's text form."""
    return f"{PARTITIONS}{topic_id}/{partition}"


def deletion_key(topic_id: str) -> str:
    return f"{DELETIONS}{topic_id}"


def encode(record: Any) -> bytes:
    return _ENCODER.encode(record)


def decode(record: type[R], value: bytes) -> R:
    """Raises ValueError if the value is no such record. Fields it does not know are skipped."""
    decoder: msgspec.json.Decoder[R] = _DECODERS[record]
    return decoder.decode(value)


_ENCODER = msgspec.json.Encoder()
_DECODERS: dict[type, Any] = {
    record: msgspec.json.Decoder(record)
    for record in (
        BrokerRecord,
        ControllerRecord,
        ClusterRecord,
        TopicRecord,
        PartitionRecord,
        DeletionRecord,
        ProducerIdsRecord,
        FeaturesRecord,
        ConfigRecord,
    )
}
