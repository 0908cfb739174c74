"""The plan of an import: oncelog's metadata records for a directory of Apache Kafka, or the reasons
for which the directory cannot be imported."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from oncelog_protocol.features import TRANSACTION_VERSION
from oncelog_protocol.security.scram_credential import ScramMechanism
from oncelog_protocol.types import uuid_from_string, uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.producer_ids import BLOCK_SIZE
from oncelog_server.cluster.records import (
    AclsRecord,
    ClusterRecord,
    FeaturesRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotasRecord,
    ScramCredentialRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import Entry, Snapshot
from oncelog_server.log.checkpoints import MetaProperties
from oncelog_server.migration.planning.folders import NONE, KafkaFolder
from oncelog_server.migration.planning.groups import GroupKind
from oncelog_server.migration.planning.kafka_cluster import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    KafkaCluster,
    KafkaPartition,
    KafkaTopic,
)
from oncelog_server.quotas.entities import check_entity, check_limit, entity_text
from oncelog_server.refusal import Refused
from oncelog_server.security.acls import new_acl
from oncelog_server.settings.model import Settings
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from oncelog_server.settings.table import InvalidValue
from oncelog_server.settings.topics import topic_values
from oncelog_server.storage.layout import partition_directory

REVISION: Final = 1
# Settings of topics that have no effect on a single broker, or none since Kafka 3.0.
WITHOUT_EFFECT: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.downconversion.enable",
        "message.format.version",
    }
)
# Dynamic settings of brokers with the value that oncelog has anyway. Kafka writes this setting into
# every new cluster (KIP-966).
USUAL_BROKER_SETTINGS: Final = {"min.insync.replicas": "1"}
# Ids that stand for no directory (Kafka's DirectoryId). The third of them, LOST (1), stands for a
# directory that has failed.
_UNASSIGNED: Final = bytes(16)
_MIGRATING: Final = (2).to_bytes(16, "big")


class ImportPlan(msgspec.Struct):
    """The result. The import is possible only without `refusals`.

    `snapshot` are oncelog's records. `strays` are the folders of partitions that no topic has.
    `notes` are sentences for the operator.
    """

    meta: MetaProperties
    snapshot: Snapshot
    notes: list[str]
    refusals: list[str]
    strays: list[str]


class ImportPlanner:
    """Makes the plan. Call `plan` only once. `features` are the levels that oncelog supports."""

    def __init__(
        self,
        cluster: KafkaCluster,
        meta: MetaProperties,
        folders: Sequence[KafkaFolder],
        groups: Mapping[GroupKind, Mapping[str, Sequence[int]]],
        *,
        features: Mapping[str, tuple[int, int]],
        settings: Settings,
    ) -> None:
        self._cluster = cluster
        self._meta = meta
        self._folders = {(folder.topic, folder.partition): folder for folder in folders}
        self._groups = groups
        self._supported = features
        self._settings = settings
        self._notes: list[str] = []
        self._refusals: list[str] = []
        self._strays: list[str] = []

    def plan(self) -> ImportPlan:
        self._check_cluster()
        self._check_groups()
        self._check_folders()
        values: dict[str, Any] = {
            records.CLUSTER: ClusterRecord(self._meta.cluster_id, absolute_hash=True),
            records.FEATURES: FeaturesRecord(self._features()),
            records.PRODUCER_IDS: ProducerIdsRecord(self._next_producer_id()),
        }
        self._add_acls(values)
        self._add_credentials(values)
        self._add_quotas(values)
        for topic in self._cluster.topics.values():
            self._add_topic(topic, values)
        entries = [
            Entry(key, records.encode(value), REVISION, REVISION)
            for key, value in sorted(values.items())
        ]
        snapshot = Snapshot(REVISION, tuple(entries))
        return ImportPlan(self._meta, snapshot, self._notes, self._refusals, self._strays)

    # --- the cluster

    def _check_cluster(self) -> None:
        cluster = self._cluster
        if cluster.is_migrating_from_zookeeper:
            self._refusals.append(
                "the migration from ZooKeeper is not finalized: finalize it first"
            )
        self._refusals += [
            f"oncelog has no delegation tokens yet, and there is {right}"
            for right in cluster.rights.values()
        ]
        for (resource_type, name), own in cluster.settings.items():
            self._check_settings(resource_type, name, own)

    def _check_settings(self, resource_type: int, name: str, own: Mapping[str, str]) -> None:
        if resource_type == TOPIC_RESOURCE:
            return
        if resource_type == BROKER_RESOURCE:
            owner = f"broker {name}" if name else "all brokers"
            self._refusals += [
                f"the dynamic setting {key}={text} of {owner}: delete it with kafka-configs.sh, "
                "and give it to oncelog at its start"
                for key, text in own.items()
                if USUAL_BROKER_SETTINGS.get(key) != text
            ]
        elif resource_type == GROUP_RESOURCE:
            self._notes.append(
                f"the settings of group {name} are left out: only newer group protocols have them"
            )
        elif resource_type == CLIENT_METRICS_RESOURCE:
            self._notes.append(f"the subscription {name} to client metrics is left out")
        else:
            self._refusals.append(f"settings of the unknown resource type {resource_type}, {name}")

    def _add_acls(self, values: dict[str, Any]) -> None:
        """Add the records of the access rules, which are by pattern in oncelog."""
        rules: defaultdict[str, list[tuple[str, str, int, int]]] = defaultdict(list)
        for acl in self._cluster.acls.values():
            try:
                new_acl(
                    acl.resource_type,
                    acl.resource_name,
                    acl.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                )
            except Refused as refused:
                self._refusals.append(
                    f"an ACL of {acl.principal} on {acl.resource_name}: {refused.message}"
                )
                continue
            key = records.acls_key(acl.resource_type, acl.pattern_type, acl.resource_name)
            rules[key].append((acl.principal, acl.host, acl.operation, acl.permission_type))
        values |= {key: AclsRecord(tuple(rows)) for key, rows in rules.items()}
        if rules:
            self._notes.append(
                f"access rules (ACLs): {len(self._cluster.acls)}; they hold only if the broker is "
                f"started with authorizer.class.name={STANDARD_AUTHORIZER}"
            )

    def _add_credentials(self, values: dict[str, Any]) -> None:
        credentials = self._cluster.credentials
        for (mechanism, user), found in credentials.items():
            try:
                key = records.scram_key(ScramMechanism(mechanism), user)
            except ValueError:
                self._refusals.append(
                    f"the SCRAM credential of user {user} has the unknown mechanism {mechanism}"
                )
                continue
            values[key] = ScramCredentialRecord(
                found.salt, found.stored_key, found.server_key, found.iterations
            )
        if credentials:
            self._notes.append(f"SCRAM credentials of users: {len(credentials)}")

    def _add_quotas(self, values: dict[str, Any]) -> None:
        """Add the records of the quotas. Add a refusal for an entity or a value that oncelog does
        not accept, such as the host name of an `ip`."""
        quotas = self._cluster.quotas
        for entity, limits in quotas.items():
            try:
                check_entity(entity)
                for name, limit in limits.items():
                    check_limit(entity, name, limit)
            except Refused as refused:
                self._refusals.append(f"a quota of {entity_text(entity)}: {refused.message}")
                continue
            values[records.quotas_key(entity)] = QuotasRecord(dict(limits))
        if quotas:
            self._notes.append(f"entities with quotas of clients: {len(quotas)}")

    def _features(self) -> dict[str, int]:
        levels = {}
        for name, (lowest, highest) in self._supported.items():
            level = self._cluster.features.get(name, 0)
            levels[name] = level
            if not lowest <= level <= highest:
                self._refusals.append(
                    f"{name} is at level {level}, and oncelog supports {lowest} to {highest}"
                )
        others = [
            f"{name} {level}"
            for name, level in sorted(self._cluster.features.items())
            if name not in self._supported
        ]
        self._notes.append(f"{TRANSACTION_VERSION} stays at level {levels[TRANSACTION_VERSION]}")
        if others:
            self._notes.append(f"features that oncelog does not have: {', '.join(others)}")
        return levels

    def _next_producer_id(self) -> int:
        highest = max((folder.producer_id for folder in self._folders.values()), default=NONE)
        after = -(-(highest + 1) // BLOCK_SIZE) * BLOCK_SIZE
        return max(self._cluster.next_producer_id, after)

    def _check_groups(self) -> None:
        kept = len(self._groups.get(GroupKind.CLASSIC, ()))
        self._notes.append(f"groups that keep their committed offsets: {kept}")
        for kind in (GroupKind.CONSUMER, GroupKind.STREAMS):
            for group in self._groups.get(kind, ()):
                self._notes.append(
                    f"group {group} keeps its offsets; its members must join again with the "
                    f"classic protocol, because oncelog does not have the {kind.value} protocol"
                )
        for group in self._groups.get(GroupKind.SHARE, ()):
            self._refusals.append(f"{group} is a share group, which oncelog does not have")
        for group, types in self._groups.get(GroupKind.UNKNOWN, {}).items():
            self._refusals.append(
                f"group {group} has records of the unknown types {', '.join(map(str, types))}"
            )

    # --- the folders

    def _check_folders(self) -> None:
        known = {
            (topic.name, number): topic.id
            for topic in self._cluster.topics.values()
            for number in topic.partitions
        }
        for place, folder in list(self._folders.items()):
            if place not in known or folder.topic_id not in (None, known[place]):
                del self._folders[place]
                self._strays.append(folder.folder)
            elif folder.old_format is not None:
                self._refusals.append(
                    f"{folder.old_format}. Kafka 4 and oncelog do not write this format: copy the "
                    f"records of {folder.topic} to a new topic first"
                )

    # --- the topics

    def _add_topic(self, topic: KafkaTopic, values: dict[str, Any]) -> None:
        id_text = uuid_to_string(topic.id)
        count = max(topic.partitions, default=-1) + 1
        own = dict(self._cluster.settings.get((TOPIC_RESOURCE, topic.name), {}))
        for name in sorted(WITHOUT_EFFECT & own.keys()):
            value = own.pop(name)
            self._notes.append(f"{topic.name}: {name}={value} is left out: it has no effect")
        try:
            topic_values(self._settings, own)
        except InvalidValue as error:
            self._refusals.append(f"topic {topic.name}: {error}")
        values[records.topic_key(topic.name)] = TopicRecord(id_text, count, own)
        for number in range(count):
            partition = topic.partitions.get(number)
            name = partition_directory(topic.name, number)
            if partition is None:
                self._refusals.append(f"partition {name} is not in the metadata")
                continue
            folder = self._folders.get((topic.name, number))
            self._check_replica(name, partition, folder)
            # The first start elects a leader, which raises the epoch.
            epoch = max(partition.leader_epoch, NONE if folder is None else folder.leader_epoch, 0)
            me = (self._meta.node_id,)
            values[records.partition_key(id_text, number)] = PartitionRecord(
                me, me, self._meta.node_id, epoch
            )

    def _check_replica(
        self, name: str, partition: KafkaPartition, folder: KafkaFolder | None
    ) -> None:
        """Check that this directory has all committed records of the partition."""
        me = self._meta.node_id
        if me not in partition.replicas:
            self._refusals.append(f"partition {name} is only on the brokers {partition.replicas}")
        elif len(partition.replicas) > 1 and me not in (*partition.isr, *partition.eligible):
            self._refusals.append(f"partition {name}: this broker is not in the ISR")
        elif self._is_elsewhere(partition, has_folder=folder is not None):
            self._refusals.append(
                f"partition {name} is in another directory of this broker (log.dirs)"
            )
        elif folder is None:
            self._notes.append(f"partition {name} has no folder and will be empty")

    def _is_elsewhere(self, partition: KafkaPartition, *, has_folder: bool) -> bool:
        """Return True if the newest records of the partition may be in another directory of this
        broker. A folder here may be left from an interrupted move between directories (KIP-858)."""
        if len(partition.directories) != len(partition.replicas):
            return not has_folder  # an old version of Kafka: the directory is unknown
        directory = partition.directories[partition.replicas.index(self._meta.node_id)]
        if directory in (_UNASSIGNED, _MIGRATING):
            # The controller does not know yet in which directory the broker has the partition.
            own = self._cluster.directories.get(self._meta.node_id, ())
            return not has_folder and len(own) > 1
        return directory != uuid_from_string(self._meta.directory_id)
