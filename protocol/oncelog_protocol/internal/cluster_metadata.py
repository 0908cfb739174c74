"""The records of `__cluster_metadata`, the log of an Apache Kafka cluster's metadata (KIP-631).

A record has no key. Its value is a frame: the version of the frame, the type and the version of the
record as unsigned varints, then the record (Kafka's MetadataRecordSerde).
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

from oncelog_protocol.codecs import decoder, encoder
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.schema import message, schema_of, struct
from oncelog_protocol.types import (
    Buffer,
    array,
    boolean,
    bytestring,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from oncelog_protocol.unsigned_varint import read_uvarint, write_uvarint

from .versions import UnknownRecordVersion

FRAME_VERSION: Final = 1
# `leader` of a change that keeps the leader.
SAME_LEADER: Final = -2


class RecordType(IntEnum):
    """The type of a metadata record (`apiKey` of its definition)."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    FENCE_BROKER = 7
    UNFENCE_BROKER = 8
    REMOVE_TOPIC = 9
    DELEGATION_TOKEN = 10
    USER_SCRAM_CREDENTIAL = 11
    FEATURE_LEVEL = 12
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    BROKER_REGISTRATION_CHANGE = 17
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    NO_OP = 20
    ZK_MIGRATION_STATE = 21
    REMOVE_USER_SCRAM_CREDENTIAL = 22
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    REMOVE_DELEGATION_TOKEN = 26
    REGISTER_CONTROLLER = 27
    CLEAR_ELR = 28

    @property
    def kafka_name(self) -> str:
        """Return the name of the definition, such as `PartitionChangeRecord`."""
        return f"{self.name.title().replace('_', '')}Record"


@struct
class BrokerEndpoint:
    """A listener of a broker."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@struct
class BrokerFeature:
    """The levels of a feature that a broker supports."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(range(0, 5), flexible_since=0)
class RegisterBrokerRecord:
    """A registration of a broker. `log_dirs` are the ids of its directories (KIP-858)."""

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean(since=2)
    incarnation_id: bytes = uuid()
    broker_epoch: int = int64()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable=True)
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean(since=1)
    log_dirs: list[bytes] = array(uuid, since=3, tag=0)
    cordoned_log_dirs: list[bytes] | None = array(
        uuid, since=4, nullable_since=4, tag=1, default=None
    )


@message(range(0, 1), flexible_since=0)
class UnregisterBrokerRecord:
    """The end of a registration."""

    broker_id: int = int32()
    broker_epoch: int = int64()


@message(range(0, 4), flexible_since=0)
class BrokerRegistrationChangeRecord:
    """A change of a registration. An absent field stays as it is."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8(since=1, tag=1)
    log_dirs: list[bytes] = array(uuid, since=2, tag=2)
    cordoned_log_dirs: list[bytes] | None = array(
        uuid, since=3, nullable_since=3, tag=3, default=None
    )


@message(range(0, 1), flexible_since=0)
class TopicRecord:
    """A new topic."""

    name: str = string()
    topic_id: bytes = uuid()


@message(range(0, 3), flexible_since=0)
class PartitionRecord:
    """A new partition, or in a snapshot the whole state of a partition. `directories` are the ids
    of the replicas' directories (KIP-858), in the order of `replicas`."""

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    replicas: list[int] = array(int32)
    isr: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[bytes] = array(uuid, since=1)
    eligible_leader_replicas: list[int] | None = array(
        int32, since=2, nullable_since=2, tag=1, default=None
    )
    last_known_elr: list[int] | None = array(int32, since=2, nullable_since=2, tag=2, default=None)


@message(range(0, 1), flexible_since=0)
class ConfigRecord:
    """A setting of a resource, with the number of Kafka's ConfigResource.Type. A null value removes
    the setting."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable=True)


@message(range(0, 3), flexible_since=0)
class PartitionChangeRecord:
    """A change of a partition. An absent field stays as it is."""

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    isr: list[int] | None = array(int32, nullable_since=0, tag=0, default=None)
    leader: int = int32(tag=1, default=SAME_LEADER)
    replicas: list[int] | None = array(int32, nullable_since=0, tag=2, default=None)
    removing_replicas: list[int] | None = array(int32, nullable_since=0, tag=3, default=None)
    adding_replicas: list[int] | None = array(int32, nullable_since=0, tag=4, default=None)
    leader_recovery_state: int = int8(tag=5, default=-1)
    directories: list[bytes] | None = array(uuid, since=1, nullable_since=1, tag=8, default=None)
    eligible_leader_replicas: list[int] | None = array(
        int32, since=2, nullable_since=2, tag=6, default=None
    )
    last_known_elr: list[int] | None = array(int32, since=2, nullable_since=2, tag=7, default=None)


@message(range(0, 1), flexible_since=0)
class RemoveTopicRecord:
    """A deletion of a topic with its partitions and settings."""

    topic_id: bytes = uuid()


@message(range(0, 1), flexible_since=0)
class DelegationTokenRecord:
    """A delegation token (KIP-48)."""

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(string)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


@message(range(0, 1), flexible_since=0)
class UserScramCredentialRecord:
    """The password of a user for SCRAM (KIP-554)."""

    name: str = string()
    mechanism: int = int8()
    salt: bytes = bytestring(secret=True)
    stored_key: bytes = bytestring(secret=True)
    server_key: bytes = bytestring(secret=True)
    iterations: int = int32()


@message(range(0, 1), flexible_since=0)
class FeatureLevelRecord:
    """The finalized level of a feature (KIP-584). Level 0 removes the feature."""

    name: str = string()
    feature_level: int = int16()


@struct
class EntityData:
    """A part of a quota's entity. A null name is the default of the type."""

    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


@message(range(0, 1), flexible_since=0)
class ClientQuotaRecord:
    """A quota of an entity, or its removal (KIP-546)."""

    entity: list[EntityData] = array(EntityData)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@message(range(0, 1), flexible_since=0)
class ProducerIdsRecord:
    """The first producer id that no broker has got yet (KIP-730)."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


@message(range(0, 1), flexible_since=0)
class AccessControlEntryRecord:
    """An ACL."""

    id: bytes = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message(range(0, 1), flexible_since=0)
class RemoveAccessControlEntryRecord:
    """A deletion of an ACL."""

    id: bytes = uuid()


@message(range(0, 1), flexible_since=0)
class ZkMigrationStateRecord:
    """The state of a migration from ZooKeeper (KIP-866)."""

    zk_migration_state: int = int8()


@message(range(0, 1), flexible_since=0)
class RemoveUserScramCredentialRecord:
    """A deletion of a user's password for SCRAM."""

    name: str = string()
    mechanism: int = int8()


@message(range(0, 1), flexible_since=0)
class RemoveDelegationTokenRecord:
    """A deletion of a delegation token."""

    token_id: str = string()


@message(range(0, 1), flexible_since=0)
class ClearElrRecord:
    """The end of the eligible leader replicas of a topic, or of all topics if the name is empty
    (KIP-966)."""

    topic_name: str = string()


# The types with a table here. The other types say nothing about directories, topics, settings,
# features, producer ids or rights.
MESSAGES: Final = MappingProxyType(
    {
        RecordType.REGISTER_BROKER: RegisterBrokerRecord,
        RecordType.UNREGISTER_BROKER: UnregisterBrokerRecord,
        RecordType.BROKER_REGISTRATION_CHANGE: BrokerRegistrationChangeRecord,
        RecordType.TOPIC: TopicRecord,
        RecordType.PARTITION: PartitionRecord,
        RecordType.CONFIG: ConfigRecord,
        RecordType.PARTITION_CHANGE: PartitionChangeRecord,
        RecordType.REMOVE_TOPIC: RemoveTopicRecord,
        RecordType.DELEGATION_TOKEN: DelegationTokenRecord,
        RecordType.USER_SCRAM_CREDENTIAL: UserScramCredentialRecord,
        RecordType.FEATURE_LEVEL: FeatureLevelRecord,
        RecordType.CLIENT_QUOTA: ClientQuotaRecord,
        RecordType.PRODUCER_IDS: ProducerIdsRecord,
        RecordType.ACCESS_CONTROL_ENTRY: AccessControlEntryRecord,
        RecordType.REMOVE_ACCESS_CONTROL_ENTRY: RemoveAccessControlEntryRecord,
        RecordType.ZK_MIGRATION_STATE: ZkMigrationStateRecord,
        RecordType.REMOVE_USER_SCRAM_CREDENTIAL: RemoveUserScramCredentialRecord,
        RecordType.REMOVE_DELEGATION_TOKEN: RemoveDelegationTokenRecord,
        RecordType.CLEAR_ELR: ClearElrRecord,
    }
)
_TYPES: Final = {cls: record_type for record_type, cls in MESSAGES.items()}


def encode_metadata_record(record: object, version: int) -> bytes:
    """Return the value of a record. The type of `record` is one of MESSAGES."""
    parts = [write_uvarint(number) for number in (FRAME_VERSION, _TYPES[type(record)], version)]
    encoder(type(record), version)(record, parts.append)
    return b"".join(parts)


def decode_metadata_record(data: Buffer) -> tuple[RecordType, Any]:
    """Return the type and the record. The record is None if MESSAGES has no table of the type.

    Raises UnknownRecordVersion for a type or version that this release does not know, ProtocolError
    for a damaged record.
    """
    try:
        frame_version, position = read_uvarint(data, 0)
        number, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    except IndexError:
        raise ProtocolError("the frame of a metadata record is cut off") from None
    if frame_version != FRAME_VERSION:
        raise UnknownRecordVersion("metadata record's frame", frame_version)
    try:
        record_type = RecordType(number)
    except ValueError:
        raise UnknownRecordVersion("type of a metadata record", number) from None
    cls = MESSAGES.get(record_type)
    if cls is None:
        return record_type, None
    if version not in schema_of(cls).versions:
        raise UnknownRecordVersion(record_type.kafka_name, version)
    record: Any
    record, end = decoder(cls, version)(data, position)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} extra bytes after a {record_type.kafka_name}")
    return record_type, record
