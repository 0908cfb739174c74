"""The state of a consumer: its subscription, its partitions and their positions.

Source: SubscriptionState of the Java client. A position is the offset of the next record to return.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from oncelog_client.errors import IllegalStateError
from oncelog_client.values import TopicPartition

from .arguments import topic_partitions
from .offset_reset import OffsetReset


class Mode(Enum):
    """The way in which the partitions are chosen. The three ways exclude each other."""

    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    MANUAL = "partitions"


@dataclass(slots=True, eq=False)
class Assigned:
    """One assigned partition. Unknown offsets are -1. An unknown position is None."""

    partition: TopicPartition
    position: int | None = None
    leader_epoch: int = -1
    reset: OffsetReset | None = None
    paused: bool = False
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    # The number of jumps. Each `jump` increments it, so that earlier fetches are recognized as
    # stale. Normal reading is no jump.
    jumps: int = 0
    # True while on_partitions_revoked runs for this partition.
    revoking: bool = False
    # The id of the topic that the position belongs to. It is set by the first fetch at a position.
    topic_id: bytes | None = None
    # True while the client finds out whether the topic was deleted and created again.
    checking_topic: bool = False

    @property
    def fetchable(self) -> bool:
        blocked = self.paused or self.revoking or self.checking_topic
        return self.position is not None and not blocked

    def jump(self, offset: int | None, leader_epoch: int = -1) -> None:
        """Move the position to `offset`. If `offset` is None, the partition is not fetched until a
        position is found."""
        self.position = offset
        self.leader_epoch = leader_epoch
        self.reset = None
        self.jumps += 1
        if offset is None:
            self.topic_id = None

    def lag(self, *, read_committed: bool) -> int | None:
        """Return the number of offsets from the position to the end of the readable records. Return
        None while this number is unknown.

        Under read_committed the readable records end at the last stable offset.
        """
        end = self.last_stable_offset if read_committed else self.high_watermark
        if self.position is None or end < 0:
            return None
        return max(end - self.position, 0)


@runtime_checkable
class TopicPattern(Protocol):
    """The pattern of a subscription: a compiled regular expression, or an object with the same
    method."""

    def fullmatch(self, text: str, /) -> object:
        """Return something true if the topic is to be read."""


class Subscription:
    """A consumer's subscription, partitions and positions. A method raises IllegalStateError if the
    state does not allow the call."""

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: TopicPattern | None = None
        # The topics of all members, if this member is the leader of its group.
        self.group_topics: frozenset[str] = frozenset()
        self._assigned: dict[TopicPartition, Assigned] = {}

    # -- choosing

    def _enter(self, mode: Mode) -> None:
        if self.mode not in (Mode.NONE, mode):
            raise IllegalStateError(
                f"subscribed to {self.mode.value}: unsubscribe before choosing {mode.value}"
            )
        self.mode = mode

    def subscribe_topics(self, topics: Iterable[str]) -> None:
        """Subscribe to topics by name; the group assigns the partitions."""
        self._enter(Mode.TOPICS)
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: str | TopicPattern) -> None:
        """Subscribe to all topics with a name that the pattern matches as a whole. Later topics are
        included. The group assigns the partitions."""
        self._enter(Mode.PATTERN)
        self.pattern = re.compile(pattern) if isinstance(pattern, str) else pattern

    def match(self, existing: Iterable[str]) -> bool:
        """Apply the pattern to the existing topics. Return True if the result changed."""
        if self.pattern is None:
            return False
        topics = frozenset(topic for topic in existing if self.pattern.fullmatch(topic))
        changed = topics != self.topics
        self.topics = topics
        return changed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these partitions, without a group."""
        self._enter(Mode.MANUAL)
        self.set_partitions(partitions)

    def unsubscribe(self) -> None:
        """Remove the subscription and all partitions."""
        self.mode = Mode.NONE
        self.topics = frozenset()
        self.pattern = None
        self.group_topics = frozenset()
        self._assigned = {}

    @property
    def uses_group(self) -> bool:
        """Return True if the group coordinator assigns the partitions."""
        return self.mode in (Mode.TOPICS, Mode.PATTERN)

    def needed_topics(self, existing: Iterable[str]) -> frozenset[str]:
        """Return the topics that the consumer reads or wants to read: the existing topics that the
        pattern matches, or the topics subscribed to and those of the assigned partitions. The
        leader of a group also needs the topics of the other members
        (SubscriptionState.metadataTopics of the Java client)."""
        if self.pattern is not None:
            return frozenset(name for name in existing if self.pattern.fullmatch(name))
        subscribed = self.topics | self.group_topics
        return subscribed.union(partition.topic for partition in self._assigned)

    # -- partitions

    def set_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the partitions. A partition that stays keeps its position."""
        self._assigned = {
            partition: self._assigned.get(partition) or Assigned(partition)
            for partition in partitions
        }

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._assigned)

    def assigned(self) -> list[Assigned]:
        """Return all assigned partitions, in the order of their assignment."""
        return list(self._assigned.values())

    def get(self, partition: TopicPartition) -> Assigned | None:
        """Return the state of a partition, or None if the partition is not assigned."""
        return self._assigned.get(partition)

    def __getitem__(self, partition: TopicPartition) -> Assigned:
        state = self._assigned.get(partition)
        if state is None:
            raise IllegalStateError(f"{partition} is not assigned to this consumer")
        return state

    def chosen(self, partitions: Iterable[TopicPartition]) -> list[Assigned]:
        """Return the states of the given partitions. Return all states if no partition is given.
        Raises TypeError or ValueError for a value that is no partition."""
        wanted = topic_partitions("partitions", partitions)
        return [self[partition] for partition in wanted] if wanted else self.assigned()

    def without_position(self) -> list[Assigned]:
        """Return the partitions that need a committed offset or a reset before they can be
        fetched."""
        return [state for state in self._assigned.values() if state.position is None]

    def consumed(self) -> dict[TopicPartition, Assigned]:
        """Return the partitions with a position. A commit without arguments commits these."""
        return {tp: state for tp, state in self._assigned.items() if state.position is not None}
