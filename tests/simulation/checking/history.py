"""The operations of clients, in the terms of jepsen.tests.kafka. Each has sends, polls or both.

A key is a topic-partition such as "a-0". All values that are sent to a key differ. Times are in
microseconds of the simulation's clock.
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
    """The outcome of an operation, as far as its client knows it.

    After the client has sent a commit, only PRODUCER_FENCED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    and INVALID_PRODUCER_ID_MAPPING can be FAIL. All other errors are INFO.
    """

    OK = "happened"
    FAIL = "did not happen"
    INFO = "unknown"


@dataclass(frozen=True, slots=True)
class Send:
    """A sent value. `offset`: from the broker's response, or None without a response."""

    key: Key
    value: Value
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """The records of one poll: for each key, (offset, value) in the order of arrival."""

    records: Mapping[Key, tuple[tuple[int, Value], ...]]


MicroOperation: TypeAlias = Send | Poll


@dataclass(frozen=True, slots=True)
class Operation:
    """One send, one poll, or a transaction of several sends and polls.

    `group_offsets`: the committed offsets, by group and input key. `rebalanced`: keys that the
    process lost or got during the operation. `rewound`: False if the process has not returned to
    its last committed position after a failure.
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
        """Yield key, offset and value of all polled records, in order."""
        for poll in self.polls:
            for key, records in poll.records.items():
                for offset, value in records:
                    yield key, offset, value


@dataclass(frozen=True, slots=True)
class Assigned:
    """The process reads these keys from now on. `subscribed`: the group assigns the keys.
    `from_start`: the process also starts its earlier keys again."""

    process: Process
    keys: frozenset[Key]
    subscribed: bool = False
    from_start: bool = False


@dataclass(slots=True)
class History:
    """Events in the order in which operations completed.

    `complete`: keys that a reader has read to their end after the faults. `final_offsets`: the
    committed offsets of the groups at that time.
    """

    events: list[Operation | Assigned] = field(default_factory=list)
    complete: set[Key] = field(default_factory=set)
    final_offsets: dict[GroupKey, int] = field(default_factory=dict)

    def add(self, event: Operation | Assigned) -> None:
        self.events.append(event)

    @property
    def operations(self) -> list[Operation]:
        return [event for event in self.events if isinstance(event, Operation)]
