"""The cluster's metadata at one revision of the store: immutable, advanced by the store's changes.

Handlers and the broker read the metadata from an image only, never from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from oncelog_protocol.types import uuid_from_string
from oncelog_server.cluster import records
from oncelog_server.cluster.members import (
    NO_CONFIG,
    PREFIXES,
    ConfigImage,
    MembersDraft,
    Registration,
    Replica,
)
from oncelog_server.cluster.members import BrokerImage as BrokerImage
from oncelog_server.cluster.records import (
    ClusterRecord,
    ControllerRecord,
    DeletionRecord,
    FeaturesRecord,
    PartitionRecord,
    ProducerIdBlockRecord,
    QuotasRecord,
    RestoredRecord,
    TopicRecord,
)
from oncelog_server.cluster.store import Changes, Entry, Event, Snapshot
from oncelog_server.security.resources import Principal
from oncelog_server.slices import Steps, at_its_end

if TYPE_CHECKING:
    # A start without access rules, credentials and quotas imports none of these.
    from oncelog_protocol.security.scram_credential import ScramCredential
    from oncelog_server.cluster.security_records import ScramUser
    from oncelog_server.quotas.entities import Entity, EntityLimits
    from oncelog_server.security.acls import Acl, Pattern

NO_LEADER: Final = -1
_EMPTY: Mapping[Any, Any] = MappingProxyType({})


class PartitionImage(msgspec.Struct, frozen=True):
    """A partition. `partition_epoch` is the revision that last wrote its record; 0 stands for a
    missing record, and such a partition has no replicas. `PartitionRecord` explains the fields."""

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    isr_epochs: tuple[int, ...] = ()
    elr_epochs: tuple[int, ...] = ()
    directories: tuple[str | None, ...] = ()

    @property
    def has_preferred_leader(self) -> bool:
        """Return True if the first replica is the leader, as Kafka's PartitionRegistration does."""
        return self.leader == (self.replicas[0] if self.replicas else NO_LEADER)

    @property
    def is_reassigning(self) -> bool:
        """Return True while replicas are added or removed (KIP-455)."""
        return bool(self.adding or self.removing)

    def joined(self, broker_id: int) -> int:
        """Return the broker epoch in which a broker became a member of the ISR, -1 if it is no
        member or if the epoch is unknown."""
        for member, epoch in zip(self.isr, self.isr_epochs, strict=False):
            if member == broker_id:
                return epoch
        return -1


class TopicImage(msgspec.Struct, frozen=True):
    """A topic. `settings` are its own settings, as text; `id_text` is `id` in Kafka's text form.

    `missing` are the numbers of partitions without a record. Such a topic is broken: these
    partitions have no leader, and the others are served.
    """

    name: str
    id: bytes
    id_text: str
    settings: Mapping[str, str]
    partitions: tuple[PartitionImage, ...]
    revision: int
    missing: tuple[int, ...] = ()

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of the first partition, without those that a reassignment
        removes."""
        if not self.partitions:
            return 0
        first = self.partitions[0]
        return len(first.replicas) - len(first.removing)


class ClusterImage(msgspec.Struct, frozen=True):
    """All metadata at one revision.

    `controller_epoch` is -1 while there is no controller. `cluster_id` is empty until the cluster
    has one. `brokers` are alive; a broker that is in `registrations` only is fenced. The keys of
    `draining`, `failed` and `creating` are brokers, replicas and topic ids; the values are create
    revisions.
    """

    revision: int = 0
    cluster_id: str = ""
    absolute_hash: bool = False
    # `restored_at` is the revision at which the metadata was restored after a loss, 0 if it never
    # was. `restored_revision` is the newest revision before the loss that the restored metadata
    # includes (`RestoredRecord`).
    restored_at: int = 0
    restored_revision: int = 0
    controller_id: int = -1
    controller_epoch: int = -1
    brokers: Mapping[int, BrokerImage] = msgspec.field(default_factory=dict)
    registrations: Mapping[int, Registration] = msgspec.field(default_factory=dict)
    draining: Mapping[int, int] = msgspec.field(default_factory=dict)
    failed: Mapping[Replica, int] = msgspec.field(default_factory=dict)
    creating: Mapping[bytes, int] = msgspec.field(default_factory=dict)
    # Dynamic settings by `<resource>/<name>`. Each change makes a new mapping.
    configs: Mapping[str, ConfigImage] = msgspec.field(default_factory=dict)
    topics: Mapping[str, TopicImage] = msgspec.field(default_factory=dict)
    features: Mapping[str, int] = msgspec.field(default_factory=dict)
    features_epoch: int = -1
    # Deleted topics by id. The entry of a topic is removed after its last folder.
    deletions: Mapping[bytes, DeletionRecord] = msgspec.field(default_factory=dict)
    # The access rules by pattern. Each change of a rule makes a new mapping.
    acls: Mapping[Pattern, tuple[Acl, ...]] = msgspec.field(default_factory=dict)
    # The credentials by mechanism and user.
    scram_credentials: Mapping[ScramUser, ScramCredential] = msgspec.field(default_factory=dict)
    # The quotas of clients by entity. Each change of a quota makes a new mapping.
    quotas: Mapping[Entity, EntityLimits] = msgspec.field(default_factory=dict)
    # The owners of producer ids by block. Each new owner makes a new mapping.
    producer_id_owners: Mapping[int, Principal] = msgspec.field(default_factory=dict)
    _names: Mapping[bytes, str] = msgspec.field(default_factory=dict)
    # The revision that last wrote the record of an entity's quotas, of a pattern, and of a
    # credential.
    _quota_revisions: Mapping[Entity, int] = msgspec.field(default_factory=dict)
    _acl_revisions: Mapping[Pattern, int] = msgspec.field(default_factory=dict)
    _scram_revisions: Mapping[ScramUser, int] = msgspec.field(default_factory=dict)
    # All partition records by topic id. Some may have no topic yet, or be beyond their topic's
    # count.
    _partitions: Mapping[bytes, Mapping[int, PartitionImage]] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> ClusterImage:
        """Return the image of a whole store. Raises ValueError if a record cannot be decoded."""
        return at_its_end(cls.building(snapshot))

    @classmethod
    def building(cls, snapshot: Snapshot) -> Steps[ClusterImage]:
        """Build the image of a whole store in slices. Raises ValueError as `of` does."""
        draft = _Draft(cls())
        for entry in snapshot.entries:
            draft.apply(Event(entry.key, entry))
            yield
        draft.revision = snapshot.revision
        yield from draft.assembling()
        return draft.finish()

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self._names.get(topic_id)
        return None if name is None else self.topics[name]

    def acls_revision(self, pattern: Pattern) -> int:
        """Return the revision that last wrote the rules of a pattern, 0 without rules."""
        return self._acl_revisions.get(pattern, 0)

    def scram_revision(self, user: ScramUser) -> int:
        """Return the revision that last wrote a credential, 0 without it."""
        return self._scram_revisions.get(user, 0)

    def quotas_revision(self, entity: Entity) -> int:
        """Return the revision that last wrote the quotas of an entity, 0 without quotas."""
        return self._quota_revisions.get(entity, 0)

    def broker_config(self, name: str) -> ConfigImage:
        """Return the dynamic settings of a broker, or those of all brokers for an empty name."""
        return self.configs.get(f"broker/{name}", NO_CONFIG)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    @property
    def fenced(self) -> dict[int, Registration]:
        """Return the brokers that have registered and are not alive (Kafka's fenced brokers)."""
        return {
            broker_id: last
            for broker_id, last in self.registrations.items()
            if broker_id not in self.brokers
        }

    @property
    def registered(self) -> set[int]:
        """Return the ids of all brokers, fenced or not."""
        return self.brokers.keys() | self.registrations.keys()

    def orphans(self) -> list[PartitionImage]:
        """Return the partitions that belong to no topic.

        Their records remain if a creation, enlargement or deletion of a topic takes several
        transactions of the store, and is interrupted between them.
        """
        return [
            partition
            for topic_id, by_number in self._partitions.items()
            for partition in by_number.values()
            if (topic := self.topic_by_id(topic_id)) is None
            or partition.partition >= len(topic.partitions)
        ]

    def advance(self, changes: Iterable[Changes]) -> ClusterImage:
        """Return the image after these changes. Raises ValueError if a record cannot be decoded."""
        return self.next(changes)[0]

    def next(self, changes: Iterable[Changes]) -> tuple[ClusterImage, Collection[str]]:
        """Return the image after these changes, and the names of the topics that they concern.

        Raises ValueError if a record cannot be decoded.
        """
        draft = _Draft(self)
        for change in changes:
            for event in change.events:
                draft.apply(event)
            draft.revision = change.revision
        return draft.finish(), draft.names


class _Draft:
    """The next image while it is built. Each mapping is copied at its first change."""

    def __init__(self, old: ClusterImage) -> None:
        self.revision = old.revision
        self._old = old
        # Names of topics that may differ from the old image's, in the order of the changes.
        self.names: dict[str, None] = {}
        self._changed: dict[str, Any] = {}
        self._members = MembersDraft()
        self._topics: dict[str, TopicImage] | None = None
        self._names: dict[bytes, str] | None = None
        self._deletions: dict[bytes, DeletionRecord] | None = None
        self._acls: dict[Pattern, tuple[Acl, ...]] | None = None
        self._acl_revisions: dict[Pattern, int] = {}
        self._scram: dict[ScramUser, ScramCredential] | None = None
        self._scram_revisions: dict[ScramUser, int] = {}
        self._quotas: dict[Entity, EntityLimits] | None = None
        self._quota_revisions: dict[Entity, int] = {}
        self._owners: dict[int, Principal] | None = None
        self._partitions: dict[bytes, Mapping[int, PartitionImage]] | None = None
        # The inner mappings of `_partitions` that this draft may change, because it has copied
        # them.
        self._own: dict[bytes, dict[int, PartitionImage]] = {}
        # Ids of the topics to assemble again.
        self._touched: dict[bytes, None] = {}
        # Number of partitions by topic id, for topics with a record.
        self._counts: dict[bytes, int] = {}

    def apply(self, event: Event) -> None:
        """Apply a change of the store. A key of a kind that is not in KINDS is one of a later
        version, which another broker may run during an upgrade: it changes nothing here."""
        key = event.key
        apply = KINDS.get(key[: key.find("/") + 1] or key)
        if apply is not None:
            apply(self, key, event.entry)

    def assembling(self) -> Steps[None]:
        """Assemble the changed topics, each in a step. `finish` assembles later ones."""
        touched, self._touched = self._touched, {}
        for topic_id in touched:
            self._assemble(topic_id)
            yield

    def finish(self) -> ClusterImage:
        at_its_end(self.assembling())
        changed = self._changed
        changed.update(self._members.changed)
        if self._topics is not None:
            changed["topics"] = self._topics
        if self._names is not None:
            changed["_names"] = self._names
        if self._partitions is not None:
            changed["_partitions"] = self._partitions
        if self._deletions is not None:
            changed["deletions"] = self._deletions
        if self._acls is not None:
            changed["acls"] = self._acls
            changed["_acl_revisions"] = self._acl_revisions
        if self._scram is not None:
            changed["scram_credentials"] = self._scram
            changed["_scram_revisions"] = self._scram_revisions
        if self._quotas is not None:
            changed["quotas"] = self._quotas
            changed["_quota_revisions"] = self._quota_revisions
        if self._owners is not None:
            changed["producer_id_owners"] = self._owners
        return msgspec.structs.replace(self._old, revision=self.revision, **changed)

    def _nothing(self, key: str, entry: Entry | None) -> None:
        """The image does not have this kind of record."""

    def _member(self, key: str, entry: Entry | None) -> None:
        self._members.apply(self._old, key, entry)

    def _controller(self, key: str, entry: Entry | None) -> None:
        controller = entry and records.decode(ControllerRecord, entry.value)
        self._changed["controller_id"] = controller.broker_id if controller else -1
        self._changed["controller_epoch"] = entry.create_revision if entry else -1

    def _cluster(self, key: str, entry: Entry | None) -> None:
        if entry is not None:
            cluster = records.decode(ClusterRecord, entry.value)
            self._changed["cluster_id"] = cluster.id
            self._changed["absolute_hash"] = cluster.absolute_hash

    def _restored(self, key: str, entry: Entry | None) -> None:
        if entry is not None:
            restored = records.decode(RestoredRecord, entry.value)
            self._changed["restored_at"] = entry.mod_revision
            self._changed["restored_revision"] = restored.revision

    def _features(self, key: str, entry: Entry | None) -> None:
        if entry is not None:
            self._changed["features"] = records.decode(FeaturesRecord, entry.value).levels
            self._changed["features_epoch"] = entry.mod_revision

    def _deletion(self, key: str, entry: Entry | None) -> None:
        topic_id = uuid_from_string(key.removeprefix(records.DELETIONS))
        if self._deletions is None:
            self._deletions = dict(self._old.deletions)
        if entry is None:
            self._deletions.pop(topic_id, None)
        else:
            self._deletions[topic_id] = records.decode(DeletionRecord, entry.value)

    def _acl(self, key: str, entry: Entry | None) -> None:
        from oncelog_server.cluster.security_records import pattern_of, rules_of

        if self._acls is None:
            self._acls = dict(self._old.acls)
            self._acl_revisions = dict(self._old._acl_revisions)
        pattern = pattern_of(key)
        if entry is None:
            self._acls.pop(pattern, None)
            self._acl_revisions.pop(pattern, None)
            return
        self._acls[pattern] = rules_of(entry.value)
        self._acl_revisions[pattern] = entry.mod_revision

    def _credential(self, key: str, entry: Entry | None) -> None:
        from oncelog_server.cluster.security_records import credential_of, scram_user

        if self._scram is None:
            self._scram = dict(self._old.scram_credentials)
            self._scram_revisions = dict(self._old._scram_revisions)
        user = scram_user(key)
        if entry is None:
            self._scram.pop(user, None)
            self._scram_revisions.pop(user, None)
            return
        self._scram[user] = credential_of(entry.value)
        self._scram_revisions[user] = entry.mod_revision

    def _quota(self, key: str, entry: Entry | None) -> None:
        entity = records.quotas_entity(key)
        if self._quotas is None:
            self._quotas = dict(self._old.quotas)
            self._quota_revisions = dict(self._old._quota_revisions)
        if entry is None:
            self._quotas.pop(entity, None)
            self._quota_revisions.pop(entity, None)
            return
        self._quotas[entity] = records.decode(QuotasRecord, entry.value).limits
        self._quota_revisions[entity] = entry.mod_revision

    def _owner(self, key: str, entry: Entry | None) -> None:
        block = int(key.removeprefix(records.PRODUCER_ID_BLOCKS))
        if self._owners is None:
            self._owners = dict(self._old.producer_id_owners)
        if entry is None:
            self._owners.pop(block, None)
            return
        record = records.decode(ProducerIdBlockRecord, entry.value)
        self._owners[block] = Principal.of(record.principal)

    def _topic(self, key: str, entry: Entry | None) -> None:
        name = key.removeprefix(records.TOPICS)
        if self._topics is None:
            self._topics = dict(self._old.topics)
        if self._names is None:
            self._names = dict(self._old._names)
        self.names[name] = None
        before = self._topics.pop(name, None)
        if before is not None:
            # A topic that is created again under the same name has another id.
            self._names.pop(before.id, None)
            self._counts.pop(before.id, None)
        if entry is None:
            return
        record = records.decode(TopicRecord, entry.value)
        topic_id = uuid_from_string(record.id)
        partitions = before.partitions if before is not None and before.id == topic_id else ()
        topic = TopicImage(
            name, topic_id, record.id, record.settings, partitions, entry.mod_revision
        )
        self._topics[name] = topic
        self._names[topic_id] = name
        self._counts[topic_id] = record.partitions
        self._touched[topic_id] = None

    def _partition(self, key: str, entry: Entry | None) -> None:
        id_text, _, number = key.removeprefix(records.PARTITIONS).rpartition("/")
        topic_id, partition = uuid_from_string(id_text), int(number)
        by_number = self._partitions_of(topic_id)
        self._touched[topic_id] = None
        if entry is None:
            by_number.pop(partition, None)
            if not by_number and self._partitions is not None:
                del self._partitions[topic_id]
                self._own.pop(topic_id, None)
            return
        record = records.decode(PartitionRecord, entry.value)
        by_number[partition] = PartitionImage(
            topic_id,
            partition,
            record.replicas,
            record.isr,
            record.leader,
            record.leader_epoch,
            entry.mod_revision,
            record.adding,
            record.removing,
            record.elr,
            record.last_known_elr,
            record.isr_epochs,
            record.elr_epochs,
            # Interned, because thousands of partitions have the same few directories.
            tuple(directory and intern(directory) for directory in record.directories),
        )

    def _partitions_of(self, topic_id: bytes) -> dict[int, PartitionImage]:
        if self._partitions is None:
            self._partitions = dict(self._old._partitions)
        if topic_id not in self._own:
            own = dict(self._partitions.get(topic_id, _EMPTY))
            self._partitions[topic_id] = self._own[topic_id] = own
        return self._own[topic_id]

    def _assemble(self, topic_id: bytes) -> None:
        """Set the topic's partitions from their records, as many as the topic's record says. A
        partition without a record has no replicas."""
        names = self._old._names if self._names is None else self._names
        name = names.get(topic_id)
        if name is None:
            return
        self.names[name] = None
        if self._topics is None:
            self._topics = dict(self._old.topics)
        topic = self._topics[name]
        count = self._counts.get(topic_id, len(topic.partitions))
        partitions = self._old._partitions if self._partitions is None else self._partitions
        by_number = partitions.get(topic_id, _EMPTY)
        missing = tuple(number for number in range(count) if number not in by_number)
        if missing:
            by_number = {**by_number, **{n: _without_record(topic_id, n) for n in missing}}
        self._topics[name] = msgspec.structs.replace(
            topic,
            partitions=tuple(by_number[number] for number in range(count)),
            missing=missing,
        )


# The key, or its beginning up to the first slash -> the change of the draft. Each kind of record
# has a row.
KINDS: Final[Mapping[str, Callable[[_Draft, str, Entry | None], None]]] = {
    records.PARTITIONS: _Draft._partition,
    records.TOPICS: _Draft._topic,
    records.DELETIONS: _Draft._deletion,
    records.ACLS: _Draft._acl,
    records.SCRAM: _Draft._credential,
    records.QUOTAS: _Draft._quota,
    records.PRODUCER_ID_BLOCKS: _Draft._owner,
    **dict.fromkeys(PREFIXES, _Draft._member),
    records.CONTROLLER: _Draft._controller,
    records.CLUSTER: _Draft._cluster,
    records.RESTORED: _Draft._restored,
    records.FEATURES: _Draft._features,
    records.BARRIERS: _Draft._nothing,
    records.PRODUCER_IDS: _Draft._nothing,
    records.SERVER_SECRET: _Draft._nothing,
}


def _without_record(topic_id: bytes, partition: int) -> PartitionImage:
    return PartitionImage(topic_id, partition, (), (), NO_LEADER, -1, 0)
