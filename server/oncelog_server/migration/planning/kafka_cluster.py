"""The metadata of an Apache Kafka cluster: the state after a number of metadata records (KIP-631,
and Kafka's MetadataDelta)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from oncelog_protocol.internal.cluster_metadata import (
    SAME_LEADER,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RecordType,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from oncelog_protocol.types import uuid_to_string
from oncelog_server.quotas.entities import Entity, entity_of

# The numbers of Kafka's ConfigResource.Type.
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32

# ZkMigrationState: 1 (PRE_MIGRATION) and 2 (MIGRATION) need the ZooKeeper cluster.
_MIGRATING: Final = (1, 2)


class MetadataConflict(ValueError):
    """A metadata record does not fit the records before it."""


class KafkaPartition(msgspec.Struct):
    """A partition. `directories` are the ids of the replicas' directories, empty if an old version
    of Kafka wrote the partition. `eligible` are replicas outside of the ISR that have all committed
    records (KIP-966)."""

    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    directories: list[bytes]
    eligible: list[int] = []


class KafkaTopic(msgspec.Struct):
    """A topic and its partitions by number."""

    name: str
    id: bytes
    partitions: dict[int, KafkaPartition] = {}


class KafkaCluster:
    """The metadata that results from the records passed to `replay`.

    `settings` has the settings by resource (type, name). `acls` has the records of the access rules
    in force, by id. `credentials` has the SCRAM credentials by mechanism and user, and `quotas` has
    the quotas by entity. `rights` has a sentence for each delegation token. `directories` has the
    ids of the directories of each registered broker (KIP-858), empty if an old version of Kafka
    registered it.
    """

    def __init__(self) -> None:
        self.topics: dict[bytes, KafkaTopic] = {}
        self.settings: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.acls: dict[bytes, AccessControlEntryRecord] = {}
        self.credentials: dict[tuple[int, str], UserScramCredentialRecord] = {}
        self.quotas: dict[Entity, dict[str, float]] = {}
        self.rights: dict[tuple[object, ...], str] = {}
        self.directories: dict[int, list[bytes]] = {}
        self.is_migrating_from_zookeeper = False
        # The records of an open metadata transaction (KIP-868), None outside a transaction.
        self._open: list[tuple[RecordType, Any]] | None = None

    def replay(self, record_type: RecordType, record: Any) -> None:
        """Apply a record, or keep it until its metadata transaction ends. Raises
        MetadataConflict."""
        if record_type is RecordType.BEGIN_TRANSACTION:
            self._open = []
        elif record_type is RecordType.ABORT_TRANSACTION:
            self._open = None
        elif record_type is RecordType.END_TRANSACTION:
            records, self._open = self._open or [], None
            for kept_type, kept in records:
                _REPLAYS[kept_type](self, kept)
        elif self._open is not None:
            self._open.append((record_type, record))
        else:
            _REPLAYS[record_type](self, record)

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self.directories[record.broker_id] = record.log_dirs

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        if record.log_dirs:
            self.directories[record.broker_id] = record.log_dirs

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.directories.pop(record.broker_id, None)

    def _topic(self, record: TopicRecord) -> None:
        self.topics[record.topic_id] = KafkaTopic(record.name, record.topic_id)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic_of(record.topic_id)
        del self.topics[record.topic_id]
        self.settings.pop((TOPIC_RESOURCE, topic.name), None)

    def _partition(self, record: PartitionRecord) -> None:
        self._topic_of(record.topic_id).partitions[record.partition_id] = KafkaPartition(
            record.replicas,
            record.isr,
            record.leader,
            record.leader_epoch,
            record.directories,
            record.eligible_leader_replicas or [],
        )

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._topic_of(record.topic_id)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise MetadataConflict(f"a change of the unknown {topic.name}-{record.partition_id}")
        if record.isr is not None:
            partition.isr = record.isr
        if record.leader != SAME_LEADER:
            partition.leader = record.leader
            partition.leader_epoch += 1
        if record.replicas is not None:
            partition.replicas = record.replicas
        if record.directories is not None:
            partition.directories = record.directories
        if record.eligible_leader_replicas is not None:
            partition.eligible = record.eligible_leader_replicas

    def _clear_eligible(self, record: ClearElrRecord) -> None:
        for topic in self.topics.values():
            if record.topic_name in ("", topic.name):
                for partition in topic.partitions.values():
                    partition.eligible = []

    def _config(self, record: ConfigRecord) -> None:
        resource = record.resource_type, record.resource_name
        own = self.settings.setdefault(resource, {})
        if record.value is not None:
            own[record.name] = record.value
        else:
            own.pop(record.name, None)
        if not own:
            del self.settings[resource]

    def _feature(self, record: FeatureLevelRecord) -> None:
        self.features[record.name] = record.feature_level
        if record.feature_level == 0:
            del self.features[record.name]

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _acl(self, record: AccessControlEntryRecord) -> None:
        self.acls[record.id] = record

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self.acls.pop(record.id, None)

    def _scram(self, record: UserScramCredentialRecord) -> None:
        self.credentials[record.mechanism, record.name] = record

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self.credentials.pop((record.mechanism, record.name), None)

    def _token(self, record: DelegationTokenRecord) -> None:
        self.rights["token", record.token_id] = f"a delegation token of {record.owner}"

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.rights.pop(("token", record.token_id), None)

    def _quota(self, record: ClientQuotaRecord) -> None:
        entity = entity_of((part.entity_type, part.entity_name) for part in record.entity)
        limits = self.quotas.setdefault(entity, {})
        if record.remove:
            limits.pop(record.key, None)
        else:
            limits[record.key] = record.value
        if not limits:
            del self.quotas[entity]

    def _zookeeper(self, record: ZkMigrationStateRecord) -> None:
        self.is_migrating_from_zookeeper = record.zk_migration_state in _MIGRATING

    def _topic_of(self, topic_id: bytes) -> KafkaTopic:
        topic = self.topics.get(topic_id)
        if topic is None:
            raise MetadataConflict(f"a record of the unknown topic {uuid_to_string(topic_id)}")
        return topic

    def _no_effect(self, record: Any) -> None:
        """Ignore a record about the state of other nodes: only this node remains."""


_REPLAYS: Final[dict[RecordType, Callable[[KafkaCluster, Any], None]]] = {
    RecordType.REGISTER_BROKER: KafkaCluster._register_broker,
    RecordType.UNREGISTER_BROKER: KafkaCluster._unregister_broker,
    RecordType.TOPIC: KafkaCluster._topic,
    RecordType.PARTITION: KafkaCluster._partition,
    RecordType.CONFIG: KafkaCluster._config,
    RecordType.PARTITION_CHANGE: KafkaCluster._change_partition,
    RecordType.FENCE_BROKER: KafkaCluster._no_effect,
    RecordType.UNFENCE_BROKER: KafkaCluster._no_effect,
    RecordType.REMOVE_TOPIC: KafkaCluster._remove_topic,
    RecordType.DELEGATION_TOKEN: KafkaCluster._token,
    RecordType.USER_SCRAM_CREDENTIAL: KafkaCluster._scram,
    RecordType.FEATURE_LEVEL: KafkaCluster._feature,
    RecordType.CLIENT_QUOTA: KafkaCluster._quota,
    RecordType.PRODUCER_IDS: KafkaCluster._producer_ids,
    RecordType.BROKER_REGISTRATION_CHANGE: KafkaCluster._change_broker,
    RecordType.ACCESS_CONTROL_ENTRY: KafkaCluster._acl,
    RecordType.REMOVE_ACCESS_CONTROL_ENTRY: KafkaCluster._remove_acl,
    RecordType.NO_OP: KafkaCluster._no_effect,
    RecordType.ZK_MIGRATION_STATE: KafkaCluster._zookeeper,
    RecordType.REMOVE_USER_SCRAM_CREDENTIAL: KafkaCluster._remove_scram,
    RecordType.REMOVE_DELEGATION_TOKEN: KafkaCluster._remove_token,
    RecordType.REGISTER_CONTROLLER: KafkaCluster._no_effect,
    RecordType.CLEAR_ELR: KafkaCluster._clear_eligible,
}
