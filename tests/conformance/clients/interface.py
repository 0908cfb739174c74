"""The interface through which the conformance tests call every client library. Every call blocks,
and every wait has a timeout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

# Maximum wait of a client. If the broker does not respond, the test fails after this time.
ANSWER_TIMEOUT_S = 20.0
# The session timeout. It is longer than a pause of the computer or the absence of a static member,
# and shorter than the wait of a test.
SESSION_MS = 15_000


@dataclass(frozen=True, slots=True)
class Record:
    """A record to write. `timestamp` is in ms, or None for the client's own clock."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int | None = None
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Received:
    """A record as the client returned it."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class Refused(Exception):
    """An error of the client. `kind` is the client's name for the error."""

    def __init__(self, kind: str, message: str = "", *, fenced: bool = False) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.fenced = fenced


class Consumer(Protocol):
    """A reader of one topic, by group or by assignment. Without a committed offset it starts at the
    earliest offset."""

    def poll(self, timeout_s: float) -> list[Received]: ...

    def assignment(self) -> frozenset[int]: ...

    def commit(self, offsets: Mapping[int, int]) -> None: ...

    def close(self) -> None: ...


class Producer(Protocol):
    """A writer. `send` returns the partition and offset of each record after all are
    acknowledged."""

    def send(self, topic: str, records: Sequence[Record]) -> list[tuple[int, int]]: ...

    def init_transactions(self) -> None: ...

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def send_offsets(self, offsets: Mapping[int, int], consumer: Consumer) -> None: ...

    def close(self) -> None: ...


class Client(Protocol):
    """A client library. It opens producers and consumers. `strategies` are its assignors."""

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
