"""The records of the metadata store: one small JSON document for each key. A record's docstring
begins with its key. The store deletes a leased key when its broker's lease ends. The create
revision of a key is the store's revision at its creation, the mod revision that of its last
change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

if TYPE_CHECKING:
    from oncelog_protocol.security.scram_credential import ScramMechanism

R = TypeVar("R")


class EndpointRecord(msgspec.Struct, frozen=True):
    """The address that one listener gives to its clients."""

    listener: str
    host: str
    port: int


class BrokerRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """`brokers/<id>`, leased; its create revision is the broker epoch.

    `features` are the feature levels that the broker supports, as name -> [lowest, highest].
    `lease_id` is the lease of this key. `kept_epochs` are the epochs of earlier registrations of
    the same data directory, if the directory still has every record that it had then
    (`cluster/registration.py`). `version` is that of the broker's software.
    """

    incarnation: str
    endpoints: tuple[EndpointRecord, ...]
    rack: str | None = None
    features: dict[str, tuple[int, int]] = {}
    directory_id: str = ""
    lease_id: int = 0
    boot_id: str = ""
    kept_epochs: tuple[int, ...] = ()
    version: str = ""


class RegistrationRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """`registrations/<id>`: the last registration of a broker. It outlives the broker's lease, so a
    broker with this key and without `brokers/<id>` is fenced.

    The transaction that registers the broker also writes this key, so its mod revision is the
    broker epoch. A later write of this key must set `broker_epoch`; 0 stands for the mod revision.
    `clean_stop_epoch` is the broker epoch in the directory's mark of a clean stop, 0 without it.
    `flush_on_ack` says that this registration acknowledges only records that are on disk.
    """

    directory_id: str
    broker_epoch: int = 0
    endpoints: tuple[EndpointRecord, ...] = ()
    rack: str | None = None
    clean_stop_epoch: int = 0
    boot_id: str = ""
    flush_on_ack: bool = False
    kept_epochs: tuple[int, ...] = ()


class DrainingRecord(msgspec.Struct, frozen=True):
    """`draining/<id>`, leased: the broker stops. It joins no ISR, and leads only partitions
    that no other replica can lead."""


class FailedRecord(msgspec.Struct, frozen=True):
    """`failed/<id>/<topic id>/<n>`, leased: the broker cannot serve its replica of the
    partition."""

    reason: str = ""


class CreatingRecord(msgspec.Struct, frozen=True):
    """`creating/<topic id>`, leased by the creator: a creation that needs several transactions. The
    first transaction writes this key, and the last deletes it. Partition records of this topic are
    no orphans."""

    topic: str = ""


class BarrierRecord(msgspec.Struct, frozen=True):
    """`barriers/<id>`, leased: a broker writes this key to see its revision in the watch. The image
    does not have it."""


class ControllerRecord(msgspec.Struct, frozen=True):
    """`controller`, leased; its create revision is the controller epoch."""

    broker_id: int


class ClusterRecord(msgspec.Struct, frozen=True):
    """`cluster`: written once.

    With `absolute_hash`, an id belongs to the partition of the absolute value of its hash, as in
    Apache Kafka, from which such a cluster was imported.
    """

    id: str
    absolute_hash: bool = False


class RestoredRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """`restored`: the metadata was written from an export or from data directories, because etcd
    had lost it. The mod revision identifies this restoration.

    `revision` is the newest revision before the loss that the restored metadata includes. While the
    restoration is not complete, there is no record of the cluster, and `source` says where the
    metadata comes from: "etcd", "file" or "directories". With "etcd", `revision` is that of the
    records that etcd had, and `cluster_id` and `absolute_hash` keep the values of the record of the
    cluster.
    """

    revision: int
    source: str = ""
    cluster_id: str = ""
    absolute_hash: bool = False


class TopicRecord(msgspec.Struct, frozen=True):
    """`topics/<name>`. A topic has the partitions 0 to `partitions` - 1, even if the store has keys
    of further partitions.

    Partition records are written in the same transaction of the store as the topic's record, or
    before it if they do not fit. They are deleted after the topic's record.
    """

    id: str
    partitions: int
    settings: dict[str, str] = {}


class PartitionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """`partitions/<topic id>/<n>`; its mod revision is the partition epoch.

    `leader` is -1 while the partition has no leader. `elr` are the eligible leader replicas: they
    left the ISR while it was below the min ISR, and have all committed records (KIP-966).
    `last_known_elr` is the last leader, while the ISR is empty. `isr_epochs` and `elr_epochs` are
    the broker epochs in which these replicas became members, in the order of `isr` and `elr`. A
    member without an epoch was written by a version before these fields. `directories` are the data
    directories in which the replicas were in the ISR last (`replica_directories.py`).
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    isr_epochs: tuple[int, ...] = ()
    elr_epochs: tuple[int, ...] = ()
    directories: tuple[str | None, ...] = ()


class DeletionRecord(msgspec.Struct, frozen=True):
    """`deletions/<topic id>`: a deleted topic, kept until its folders are deleted.

    A broker with the metadata in its data directory puts the folder of an unknown topic aside only
    if there is a deletion record for that topic. Only this broker deletes the record.
    """

    name: str
    partitions: int


class ProducerIdsRecord(msgspec.Struct, frozen=True):
    """`producer_ids`: the first id of the next block."""

    next_producer_id: int


class ProducerIdBlockRecord(msgspec.Struct, frozen=True):
    """`producer_id_blocks/<n>`: the principal, as text, that owns block n. The block has BLOCK_SIZE
    ids from n * BLOCK_SIZE on. Ids of a block without a record belong to every principal."""

    principal: str


class ServerSecretRecord(msgspec.Struct, frozen=True):
    """`server_secret`: random bytes that no client knows, the same for all brokers.

    The salt of a user that does not exist is derived from them (RFC 5802, section 5.1).
    """

    secret: bytes


class FeaturesRecord(msgspec.Struct, frozen=True):
    """`features`: the finalized levels; the mod revision is their epoch."""

    levels: dict[str, int]


class AclsRecord(msgspec.Struct, frozen=True):
    """`acls/<resource type>/<pattern type>/<name>`: the rules of a pattern, at least one.

    The types are Kafka's codes. A rule is a principal, a host, and Kafka's codes of the operation
    and the permission.
    """

    rules: tuple[tuple[str, str, int, int], ...]


class ScramCredentialRecord(msgspec.Struct, frozen=True):
    """`scram/<mechanism>/<user>`: the credential of a SCRAM user. `<mechanism>` is the SASL name of
    the mechanism. In JSON, the salt and the keys are base64."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredentialRecord(iterations={self.iterations})"


class QuotasRecord(msgspec.Struct, frozen=True):
    """`quotas/<entity>`: the limits of an entity by the name of the quota, at least one (KIP-546).

    The entity in the key is `<type>=<name>`, or the type alone for the default, with a comma before
    a second type.
    """

    limits: dict[str, float]


class ConfigRecord(msgspec.Struct, frozen=True):
    """`config/<resource>/<name>`: the dynamic settings of a resource, as text, at least one. The
    only resource is `broker`, with the broker's id as name, or an empty name for the defaults of
    all brokers (KIP-226)."""

    settings: dict[str, str]


CLUSTER: Final = "cluster"
RESTORED: Final = "restored"
CONTROLLER: Final = "controller"
FEATURES: Final = "features"
SERVER_SECRET: Final = "server_secret"
PRODUCER_IDS: Final = "producer_ids"
PRODUCER_ID_BLOCKS: Final = "producer_id_blocks/"
BROKERS: Final = "brokers/"
REGISTRATIONS: Final = "registrations/"
DRAINING: Final = "draining/"
FAILED: Final = "failed/"
CREATING: Final = "creating/"
BARRIERS: Final = "barriers/"
TOPICS: Final = "topics/"
PARTITIONS: Final = "partitions/"
DELETIONS: Final = "deletions/"
ACLS: Final = "acls/"
SCRAM: Final = "scram/"
QUOTAS: Final = "quotas/"
CONFIG: Final = "config/"
LEASED: Final = (BROKERS, CONTROLLER, DRAINING, FAILED, CREATING, BARRIERS)
"""The beginnings of keys that end with the lease of a broker."""


def broker_key(broker_id: int) -> str:
    return f"{BROKERS}{broker_id}"


def registration_key(broker_id: int) -> str:
    return f"{REGISTRATIONS}{broker_id}"


def draining_key(broker_id: int) -> str:
    return f"{DRAINING}{broker_id}"


def failed_key(broker_id: int, topic_id: str, partition: int) -> str:
    return f"{FAILED}{broker_id}/{topic_id}/{partition}"


def failed_replica(key: str) -> tuple[int, str, int]:
    """Return the broker, the topic id and the partition in a key. Raises ValueError."""
    broker_id, topic_id, partition = key.removeprefix(FAILED).split("/")
    return int(broker_id), topic_id, int(partition)


def creating_key(topic_id: str) -> str:
    return f"{CREATING}{topic_id}"


def barrier_key(broker_id: int) -> str:
    return f"{BARRIERS}{broker_id}"


def topic_key(name: str) -> str:
    return f"{TOPICS}{name}"


def partition_key(topic_id: str, partition: int) -> str:
    """Return the key of a partition. `topic_id` is in Kafka's text form."""
    return f"{PARTITIONS}{topic_id}/{partition}"


def deletion_key(topic_id: str) -> str:
    return f"{DELETIONS}{topic_id}"


def producer_id_block_key(number: int) -> str:
    """Return the key of the owner of a block."""
    return f"{PRODUCER_ID_BLOCKS}{number}"


def acls_key(resource_type: int, pattern_type: int, name: str) -> str:
    """Return the key of a pattern. The name is last, because it may contain a slash."""
    return f"{ACLS}{resource_type}/{pattern_type}/{name}"


def acls_pattern(key: str) -> tuple[int, int, str]:
    """Return the resource type, the pattern type and the name in a key. Raises ValueError."""
    resource_type, pattern_type, name = key.removeprefix(ACLS).split("/", 2)
    return int(resource_type), int(pattern_type), name


def scram_key(mechanism: ScramMechanism, user: str) -> str:
    """Return the key of a credential. The user is last, because the name may contain a slash."""
    return f"{SCRAM}{mechanism.sasl}/{user}"


def broker_config_key(name: str) -> str:
    """Return the key of a broker's dynamic settings. `name` is the id, or empty for the defaults of
    all brokers."""
    return f"{CONFIG}broker/{name}"


def quotas_key(entity: Iterable[tuple[str, str | None]]) -> str:
    """Return the key of an entity's quotas. In a name, `%` and `,` are escaped as in a URL."""
    return QUOTAS + ",".join(
        type_ if name is None else f"{type_}={name.replace('%', '%25').replace(',', '%2C')}"
        for type_, name in entity
    )


def quotas_entity(key: str) -> tuple[tuple[str, str | None], ...]:
    """Return the types and names of the entity in a key."""
    parts = []
    for part in key.removeprefix(QUOTAS).split(","):
        type_, equals, name = part.partition("=")
        parts.append((type_, name.replace("%2C", ",").replace("%25", "%") if equals else None))
    return tuple(parts)


def encode(record: Any) -> bytes:
    return _ENCODER.encode(record)


def decode(record: type[R], value: bytes) -> R:
    """Return the record in `value`. Raises ValueError if it is not such a record.

    Unknown fields are ignored, so that a newer version may add some.
    """
    decoder: msgspec.json.Decoder[R] = _DECODERS[record]
    return decoder.decode(value)


_ENCODER = msgspec.json.Encoder()
_DECODERS: dict[type, Any] = {
    record: msgspec.json.Decoder(record)
    for record in (
        BrokerRecord,
        RegistrationRecord,
        DrainingRecord,
        FailedRecord,
        CreatingRecord,
        BarrierRecord,
        ControllerRecord,
        ClusterRecord,
        RestoredRecord,
        TopicRecord,
        PartitionRecord,
        DeletionRecord,
        ProducerIdsRecord,
        ProducerIdBlockRecord,
        FeaturesRecord,
        ServerSecretRecord,
        AclsRecord,
        ScramCredentialRecord,
        QuotasRecord,
        ConfigRecord,
    )
}
