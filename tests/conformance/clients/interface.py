"""The interface that a script needs of any client. Every call blocks; every wait has an end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

# No wait of a client is longer than this: a broker that does not answer fails the test soon.
ANSWER_TIMEOUT_S = 20.0
# Longer than a machine stands still or a member is away to come back, shorter than a test waits.
SESSION_MS = 15_000


@dataclass(frozen=True, slots=True)
class Record:
    """A record to write; `timestamp` in ms, None for the client's own clock."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int | None = None
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Received:
    """A record as read."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class Refused(Exception):
    """The client reported an error; `kind` is its own name for it."""

    def __init__(self, kind: str, message: str = "", *, fenced: bool = False) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.fenced = fenced


class Consumer(Protocol):
    """A reader of one topic, by group or by assignment, from the earliest offset if it has none."""

    def poll(self, timeout_s: float) -> list[Received]: ...

    def assignment(self) -> frozenset[int]: ...

    def commit(self, offsets: Mapping[int, int]) -> None: ...

    def close(self) -> None: ...


class Producer(Protocol):
    """A writer; `send` returns partition and offset of each record once all are acknowledged."""

    def send(self, topic: str, records: Sequence[Record]) -> list[tuple[int, int]]: ...

    def init_transactions(self) -> None: ...

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def send_offsets(self, offsets: Mapping[int, int], consumer: Consumer) -> None: ...

    def close(self) -> None: ...


class Client(Protocol):
    """How to open the two; `strategies` are the assignors this client has."""

    @property
    def name(self) -> str: ...

    @property
    def strategies(self) -> frozenset[str]: ...

    def producer(
        self, address: str, *, codec: str = "none", transactional_id: str | None = None
    ) -> Producer: ...

    def consumer(
        self,
        address: str,
        topic: str,
        *,
        group: str | None = None,
        partitions: Sequence[int] = (),
        read_committed: bool = False,
        strategy: str = "range",
        instance_id: str | None = None,
    ) -> Consumer: ...
