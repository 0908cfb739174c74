"""Creation of topics.

The changes are decided on an image and returned as conditional writes. Checks, codes and messages
are those of Kafka's ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_limits import (
    MAX_PARTITIONS_OF_A_REQUEST,
    TakePermits,
    check_room,
    partition_count,
    too_many_in_a_request,
)
from oncelog_server.cluster.placement import (
    Assignment,
    Placeable,
    check_assignment,
    place,
    start_for,
)
from oncelog_server.cluster.records import TopicRecord
from oncelog_server.cluster.store import MAX_OPERATIONS, Created, Put, Write
from oncelog_server.cluster.topic_names import (
    by_unified_name,
    check_collision,
    check_topic_name,
    is_internal,
    unified,
)
from oncelog_server.cluster.topic_writes import creating_put, partition_puts, topic_last
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from oncelog_server.settings.table import InvalidValue
from oncelog_server.settings.topics import check_names, check_overrides, check_segment_bytes

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


def check_creation(settings: Settings, topics: Sequence[NewTopic]) -> None:
    """Raise Refused if all topics of a request together would have too many partitions.

    As in Kafka, the whole request is refused, before any other check.
    """
    if sum(_requested_partitions(settings, new) for new in topics) > MAX_PARTITIONS_OF_A_REQUEST:
        raise too_many_in_a_request()


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
            raise too_many_in_a_request()
        if not is_internal(new.name):  # the coordinators must always get their topics
            self._take_room(count)
        if self._take is not None:
            self._take(new.name, count)
        id_text = uuid_to_string(topic_id)
        put = Put(records.topic_key(new.name), records.encode(TopicRecord(id_text, count, own)))
        partitions = partition_puts(image, id_text, 0, assignments)
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
            self._partitions = partition_count(self._image)
        check_room(self._partitions, self._settings, count)
        self._partitions += count

    def writes(self) -> list[Write]:
        topics = self._topics.values()
        if sum(1 + len(partitions) for _, partitions, _ in topics) > MAX_OPERATIONS:
            return [
                write
                for topic, partitions, creating in topics
                for write in topic_last(Created(topic.key, 0), topic, partitions, creating)
            ]
        if not topics:
            return []
        conditions = tuple(Created(topic.key, 0) for topic, _, _ in topics)
        puts = [put for topic, partitions, _ in topics for put in (topic, *partitions)]
        return [Write(conditions, tuple(puts))]


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
        check_names(given)
        check_segment_bytes(given, before)
        check_overrides(settings, given)
    except InvalidValue as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
    return given


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
    return place(Placeable.of(image), start_for(new.name, topic_id), 0, most, factor)


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
