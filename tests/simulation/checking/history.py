"""What clients did and saw, in the words of jepsen.tests.kafka: operations of sends and polls.

A key is a topic-partition such as "a-0"; the values sent to one key are all different. Times are
microseconds of the simulation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

Key: TypeAlias = str
Value: TypeAlias = int
Process: TypeAlias = int
GroupKey: TypeAlias = tuple[str, Key]


class Outcome(Enum):
    """What is known of an operation's effect.

    After a commit was sent, only PRODUCER_FENCED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED and
    INVALID_PRODUCER_ID_MAPPING can be FAIL: everything else that is not success is INFO.
    """

    OK = "happened"
    FAIL = "did not happen"
    INFO = "unknown"


@dataclass(frozen=True, slots=True)
class Send:
    """`offset`: as the broker answered, None if it did not."""

    key: Key
    value: Value
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """What one poll returned: by key, (offset, value) in the order they came."""

    records: Mapping[Key, tuple[tuple[int, Value], ...]]


MicroOperation: TypeAlias = Send | Poll


@dataclass(frozen=True, slots=True)
class Operation:
    """One send, one poll, or one transaction of several of them.

    `group_offsets`: what it committed, by group and input key. `rebalanced`: keys that the process
    lost or got meanwhile. `rewound`: False if the process went on after a failure without going
    back to its last committed position.
    """

    process: Process
    outcome: Outcome
    steps: tuple[MicroOperation, ...]
    invoked: int
    completed: int
    is_transaction: bool = False
    group_offsets: Mapping[GroupKey, int] = field(default_factory=dict)
    rebalanced: frozenset[Key] = frozenset()
    rewound: bool = True

    @property
    def sends(self) -> tuple[Send, ...]:
        return tuple(step for step in self.steps if isinstance(step, Send))

    @property
    def polls(self) -> tuple[Poll, ...]:
        return tuple(step for step in self.steps if isinstance(step, Poll))

    def polled(self) -> Iterator[tuple[Key, int, Value]]:
        """Key, offset and value of all its polls, in order."""
        for poll in self.polls:
            for key, records in poll.records.items():
                for offset, value in records:
                    yield key, offset, value


@dataclass(frozen=True, slots=True)
class Assigned:
    """The process reads these keys from now on. `subscribed`: the group decides which. `from_start`
    restarts the keys it had before too."""

    process: Process
    keys: frozenset[Key]
    subscribed: bool = False
    from_start: bool = False


@dataclass(slots=True)
class History:
    """Events in the order in which operations completed.

    `complete`: keys that were read to their end after everything was healed. `final_offsets`: what
    the groups had committed then.
    """

    events: list[Operation | Assigned] = field(default_factory=list)
    complete: set[Key] = field(default_factory=set)
    final_offsets: dict[GroupKey, int] = field(default_factory=dict)

    def add(self, event: Operation | Assigned) -> None:
        self.events.append(event)

    @property
    def operations(self) -> list[Operation]:
        return [event for event in self.events if isinstance(event, Operation)]
