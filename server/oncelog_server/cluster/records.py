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


class BrokerRecord(msgspec.Struct, frozen=True):
    """`brokers/<id>`, leased; its create revision is the broker epoch.

    `features` are the feature levels that the broker supports, as name -> [lowest, highest].
    """

    incarnation: str
    endpoints: tuple[EndpointRecord, ...]
    rack: str | None = None
    features: dict[str, tuple[int, int]] = {}


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


class TopicRecord(msgspec.Struct, frozen=True):
    """`topics/<name>`. A topic has the partitions 0 to `partitions` - 1, even if the store has keys
    of further partitions.

    Partition records are written in the same transaction of the store as the topic's record, or
    before it if they do not fit. They are deleted after the topic's record.
    """

    id: str
    partitions: int
    settings: dict[str, str] = {}


class PartitionRecord(msgspec.Struct, frozen=True):
    """`partitions/<topic id>/<n>`; its mod revision is the partition epoch.

    `leader` is -1 while the partition has no leader.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class DeletionRecord(msgspec.Struct, frozen=True):
    """`deletions/<topic id>`: a deleted topic, kept until its folders are deleted.

    A broker puts the folder of an unknown topic aside only if there is a deletion record for that
    topic.
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

    From them comes the salt of users that do not exist (RFC 5802, section 5.1).
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
    """`scram/<mechanism>/<user>`: the credential of a SCRAM user. The mechanism has its name of
    SASL. In JSON, the salt and the keys are base64."""

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
    """`config/<resource>/<name>`: dynamic settings."""

    settings: dict[str, str]


CLUSTER: Final = "cluster"
CONTROLLER: Final = "controller"
FEATURES: Final = "features"
SERVER_SECRET: Final = "server_secret"
PRODUCER_IDS: Final = "producer_ids"
PRODUCER_ID_BLOCKS: Final = "producer_id_blocks/"
BROKERS: Final = "brokers/"
TOPICS: Final = "topics/"
PARTITIONS: Final = "partitions/"
DELETIONS: Final = "deletions/"
ACLS: Final = "acls/"
SCRAM: Final = "scram/"
QUOTAS: Final = "quotas/"


def broker_key(broker_id: int) -> str:
    return f"{BROKERS}{broker_id}"


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
        ControllerRecord,
        ClusterRecord,
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
