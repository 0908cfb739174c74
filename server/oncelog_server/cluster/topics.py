"""Creation of topics and addition of partitions.

The changes are decided on an image and returned as conditional writes. Checks, codes and messages
are those of Kafka's ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage, TopicImage
from oncelog_server.cluster.placement import (
    Assignment,
    Placeable,
    check_assignment,
    place,
    start_of,
)
from oncelog_server.cluster.records import PartitionRecord, TopicRecord
from oncelog_server.cluster.store import (
    MAX_OPERATIONS,
    Created,
    Delete,
    Put,
    Write,
    WriteOperation,
    Written,
)
from oncelog_server.cluster.topic_names import (
    INTERNAL_TOPICS,
    by_unified_name,
    check_collision,
    check_topic_name,
    is_internal,
    unified,
)
from oncelog_server.cluster.write_sequence import FIRST_WRITE
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from oncelog_server.settings.table import InvalidValue
from oncelog_server.settings.topics import check_segment_bytes, topic_values

MAX_PARTITIONS_OF_A_REQUEST: Final = 10_000
# Takes the permits for a topic (its name, a number of partitions) from the quota of the client.
# Raises Refused if the client has none. None: there is no quota.
TakePermits = Callable[[str, int], None] | None
DEFAULT: Final = -1


class NewTopic(msgspec.Struct, frozen=True):
    """A topic to create. -1 is the broker's default. `assignments` are (partition, replicas)."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[int, Assignment], ...] = ()
    settings: Mapping[str, str | None] = msgspec.field(default_factory=dict)


class CreatedTopic(msgspec.Struct, frozen=True):
    """A topic as it will be created."""

    name: str
    id: bytes
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]


class NewPartitions(msgspec.Struct, frozen=True):
    """Partitions to add. `count` is the new total; `assignments` are for the added partitions."""

    topic: str
    count: int
    assignments: tuple[Assignment, ...] | None = None


def check_creation(settings: Settings, topics: Sequence[NewTopic]) -> None:
    """Raise Refused if all topics of a request together would have too many partitions.

    As in Kafka, the whole request is refused, before any other check.
    """
    if sum(_requested_partitions(settings, new) for new in topics) > MAX_PARTITIONS_OF_A_REQUEST:
        raise _too_many_in_a_request()


def _requested_partitions(settings: Settings, new: NewTopic) -> int:
    """Return how many partitions the topic is to have."""
    count = settings.num_partitions if new.partitions == DEFAULT else max(new.partitions, 0)
    return len(new.assignments) or count


def at_once(settings: Settings, topics: Sequence[NewTopic]) -> Iterator[list[NewTopic]]:
    """Yield the topics in their order, in lists that fit into one transaction of the store each.

    A topic that needs several transactions is alone in its list.
    """
    batch: list[NewTopic] = []
    size = 0
    for new in topics:
        needed = 1 + _requested_partitions(settings, new)
        if batch and size + needed > MAX_OPERATIONS:
            yield batch
            batch, size = [], 0
        batch.append(new)
        size += needed
    if batch:
        yield batch


def create_topic(
    image: ClusterImage, settings: Settings, new: NewTopic, topic_id: bytes
) -> tuple[CreatedTopic, list[Write]]:
    """Return the topic and the writes that create it, in their order. Raises Refused if the topic
    cannot be created."""
    (outcome,), writes = create_topics(image, settings, [(new, topic_id)])
    if isinstance(outcome, Refused):
        raise outcome
    return outcome, writes


def create_topics(
    image: ClusterImage,
    settings: Settings,
    topics: Sequence[tuple[NewTopic, bytes]],
    take: TakePermits = None,
    *,
    lease_id: int = 0,
) -> tuple[list[CreatedTopic | Refused], list[Write]]:
    """Return the outcome of each topic, and the writes that create the accepted topics.

    `topics` are pairs of a topic and its id. The writes must be made in the returned order.
    There is a single write if one transaction of the store can hold all topics. `lease_id` is the
    lease of the broker.
    """
    draft = _Creation(image, settings, take, lease_id)
    outcomes = [draft.add(new, topic_id) for new, topic_id in topics]
    return outcomes, draft.writes()


class _Creation:
    """Topics that are created together. Each is checked against those added before it."""

    def __init__(
        self, image: ClusterImage, settings: Settings, take: TakePermits, lease_id: int
    ) -> None:
        self._lease_id = lease_id
        self._image = image
        self._settings = settings
        self._take = take
        self._topics: dict[str, tuple[Put, list[Put], Put]] = {}
        # Existing names by their unified form (`_` instead of `.`), and the partition count. Both
        # are computed at their first use; until then they are None and -1.
        self._unified: dict[str, str] | None = None
        self._partitions = -1

    def add(self, new: NewTopic, topic_id: bytes) -> CreatedTopic | Refused:
        try:
            return self._add(new, topic_id)
        except Refused as refused:
            return refused

    def _add(self, new: NewTopic, topic_id: bytes) -> CreatedTopic:
        image, settings = self._image, self._settings
        if new.name in image.topics or new.name in self._topics:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' already exists.")
        check_topic_name(new.name)
        self._check_collision(new.name)
        own = checked_settings(settings, new.settings, {})
        assignments = _assignments(image, settings, new, topic_id)
        count = len(assignments)
        if count > MAX_PARTITIONS_OF_A_REQUEST:
            raise _too_many_in_a_request()
        if not is_internal(new.name):  # the coordinators must always get their topics
            self._take_room(count)
        if self._take is not None:
            self._take(new.name, count)
        id_text = uuid_to_string(topic_id)
        put = Put(records.topic_key(new.name), records.encode(TopicRecord(id_text, count, own)))
        partitions = _partition_puts(image, id_text, 0, assignments)
        creating = creating_put(id_text, new.name, self._lease_id)
        self._topics[new.name] = put, partitions, creating
        if self._unified is not None:
            self._unified[unified(new.name)] = new.name
        return CreatedTopic(new.name, topic_id, count, len(assignments[0]), own)

    def _check_collision(self, name: str) -> None:
        if "." not in name and "_" not in name:
            return
        if self._unified is None:
            self._unified = by_unified_name((*self._image.topics, *self._topics))
        check_collision(name, self._unified)

    def _take_room(self, count: int) -> None:
        if self._partitions < 0:
            self._partitions = _partition_count(self._image)
        _check_room(self._partitions, self._settings, count)
        self._partitions += count

    def writes(self) -> list[Write]:
        topics = self._topics.values()
        if sum(1 + len(partitions) for _, partitions, _ in topics) > MAX_OPERATIONS:
            return [
                write
                for topic, partitions, creating in topics
                for write in _topic_last(Created(topic.key, 0), topic, partitions, creating)
            ]
        if not topics:
            return []
        conditions = tuple(Created(topic.key, 0) for topic, _, _ in topics)
        puts = [put for topic, partitions, _ in topics for put in (topic, *partitions)]
        return [Write(conditions, tuple(puts))]


def create_partitions(
    image: ClusterImage,
    settings: Settings,
    new: NewPartitions,
    take: TakePermits = None,
    *,
    lease_id: int = 0,
) -> list[Write]:
    """Return the writes that add partitions to a topic. Raises Refused if the topic cannot have
    them. `lease_id` is the lease of the broker.

    Unlike in Kafka, an internal topic is refused, because the number of its partitions decides
    which partition holds a group or a transactional id. Kafka's coordinators use the old number
    until a restart, or fail to load.
    """
    topic = image.topics.get(new.topic)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if is_internal(new.topic):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"The number of partitions of the internal topic '{new.topic}' cannot be changed.",
        )
    if topic.missing:
        raise Refused(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The topic {new.topic} is broken: its partitions {list(topic.missing)} have no record "
            "in the metadata.",
        )
    count = len(topic.partitions)
    if new.count == count:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if new.count < count:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {new.topic} currently has {count} partition(s); {new.count} would not be "
            "an increase.",
        )
    added = new.count - count
    if added > MAX_PARTITIONS_OF_A_REQUEST:
        raise _too_many_in_a_request()
    _check_room(_partition_count(image), settings, added)
    assignments = _added_assignments(image, topic, new)
    if take is not None:
        take(new.topic, added)
    put = topic_put(topic, partitions=new.count)
    partitions = _partition_puts(image, topic.id_text, count, assignments)
    creating = creating_put(topic.id_text, topic.name, lease_id)
    return _topic_last(Written(put.key, topic.revision), put, partitions, creating)


def _added_assignments(
    image: ClusterImage, topic: TopicImage, new: NewPartitions
) -> list[Assignment]:
    """Return the replicas of the partitions that are added to a topic. Raises Refused."""
    count = len(topic.partitions)
    added = new.count - count
    factor = topic.replication_factor
    if new.assignments is None:
        start = _start(topic.name, topic.id)
        return place(Placeable.of(image), start, count, added, factor)
    if len(new.assignments) != added:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(new.assignments)} assignment(s) were specified.",
        )
    for replicas in new.assignments:
        check_assignment(replicas, image.registered, factor)
    return list(new.assignments)


def topic_put(
    topic: TopicImage, *, partitions: int | None = None, settings: Mapping[str, str] | None = None
) -> Put:
    """Return the write of the topic's record with another partition count or other settings."""
    record = TopicRecord(
        topic.id_text,
        len(topic.partitions) if partitions is None else partitions,
        dict(topic.settings if settings is None else settings),
    )
    return Put(records.topic_key(topic.name), records.encode(record))


def checked_settings(
    settings: Settings, own: Mapping[str, str | None], before: Mapping[str, str]
) -> dict[str, str]:
    """Return `own`, the new settings of a topic. Raises Refused with INVALID_CONFIG if one is null
    or invalid.

    `before` are the topic's own settings until now.
    """
    given = {name: text for name, text in own.items() if text is not None}
    try:
        if len(given) < len(own):
            names = ",".join(sorted(own.keys() - given.keys()))
            raise InvalidValue(f"Null value not supported for topic configs: {names}")
        topic_values(settings, given)
        check_segment_bytes(given, before)
    except InvalidValue as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
    return given


def _too_many_in_a_request() -> Refused:
    return Refused(
        ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
    )


def _partition_count(image: ClusterImage) -> int:
    """Return the number of partitions, without those of internal topics."""
    topics = image.topics
    internal = [topics[name] for name in INTERNAL_TOPICS if name in topics]
    return sum([len(topic.partitions) for topic in topics.values()]) - sum(
        len(topic.partitions) for topic in internal
    )


def _check_room(count: int, settings: Settings, added: int) -> None:
    """Raise Refused if `added` more partitions exceed oncelog.max.partitions (H64).

    Each partition takes memory for as long as it exists, and time at every start.
    """
    limit = settings.oncelog_max_partitions
    if count + added > limit:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"There are {count} partitions, and {added} more would be above {limit}"
            " (oncelog.max.partitions).",
        )


def _start(name: str, topic_id: bytes) -> int:
    """Return the place of the first leader. Both coordinators begin at the same place: the offsets
    and the transaction of an application then often have the same leader."""
    return 0 if is_internal(name) else start_of(topic_id)


def _assignments(
    image: ClusterImage, settings: Settings, new: NewTopic, topic_id: bytes
) -> list[Assignment]:
    if new.assignments:
        return _manual_assignments(image, new)
    if new.replication_factor < DEFAULT or new.replication_factor == 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if new.partitions < DEFAULT or new.partitions == 0:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count = settings.num_partitions if new.partitions == DEFAULT else new.partitions
    factor = new.replication_factor
    if factor == DEFAULT:
        factor = settings.default_replication_factor
    # A request may name two billion partitions. Placing one partition above the limit is enough for
    # the caller to refuse the request.
    most = min(count, MAX_PARTITIONS_OF_A_REQUEST + 1)
    return place(Placeable.of(image), _start(new.name, topic_id), 0, most, factor)


def _manual_assignments(image: ClusterImage, new: NewTopic) -> list[Assignment]:
    for value, name in (
        (new.replication_factor, "replication factor"),
        (new.partitions, "numPartitions"),
    ):
        if value != DEFAULT:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )
    by_number: dict[int, Assignment] = {}
    factor: int | None = None
    for partition, replicas in new.assignments:
        if partition in by_number:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition}",
            )
        check_assignment(replicas, image.registered, factor)
        factor = len(replicas)
        by_number[partition] = replicas
    if set(by_number) != set(range(len(by_number))):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [by_number[number] for number in range(len(by_number))]


def _partition_puts(
    image: ClusterImage, id_text: str, first: int, assignments: Sequence[Assignment]
) -> list[Put]:
    """Return the writes of new partitions. The live replicas of each are its ISR, and the first of
    them leads. Raises Refused if no replica of a partition is alive.
    """
    # A topic has up to 10,000 partitions but few different assignments.
    encoded: dict[Assignment, bytes] = {}
    puts = []
    for number, replicas in enumerate(assignments, first):
        value = encoded.get(replicas)
        if value is None:
            alive = tuple(
                broker
                for broker in replicas
                if broker in image.brokers and broker not in image.draining
            )
            if not alive:
                raise Refused(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    "All brokers specified in the manual partition assignment for partition "
                    f"{number} are fenced or in controlled shutdown.",
                )
            epochs = tuple(image.brokers[broker].epoch for broker in alive)
            record = PartitionRecord(replicas, alive, alive[0], 0, isr_epochs=epochs)
            value = encoded[replicas] = records.encode(record)
        puts.append(Put(records.partition_key(id_text, number), value))
    return puts


def _topic_last(
    condition: Created | Written, topic: Put, partitions: Sequence[Put], creating: Put
) -> list[Write]:
    """Return the writes in as few transactions as possible, the topic's record in the last.

    The topic's record makes the partitions visible. If several transactions are needed, the first
    one writes the key `creating`, so that the controller does not take the partitions for orphans.
    The last one deletes this key, and fails if it does not exist any more.
    """
    if len(partitions) < MAX_OPERATIONS:
        return [Write((condition,), (topic, *partitions))]
    # The first transaction also writes `creating`, the last one writes the topic and deletes
    # `creating`.
    first, last = MAX_OPERATIONS - 1, MAX_OPERATIONS - 2
    rest = max(first, len(partitions) - last)
    writes = [Write((condition,), (creating, *partitions[:first]))]
    for start in range(first, rest, MAX_OPERATIONS):
        end = min(start + MAX_OPERATIONS, rest)
        writes.append(Write((condition,), tuple(partitions[start:end])))
    still_there = Written(creating.key, FIRST_WRITE)
    operations: tuple[WriteOperation, ...] = (topic, *partitions[rest:], Delete(creating.key))
    return [*writes, Write((condition, still_there), operations)]


def creating_put(topic_id: str, name: str, lease_id: int) -> Put:
    """Return the write of the key that protects the partitions of a creation."""
    value = records.encode(records.CreatingRecord(name))
    return Put(records.creating_key(topic_id), value, lease_id)
