"""What a store of the cluster's metadata can do: etcd's model, of which sqlite gives the same.

Keys are texts under the cluster's own prefix, values are small records. Every change has a
revision; a transaction changes all of its keys at one revision, or none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

import msgspec

MAX_OPERATIONS: Final = 128
"""etcd's default limit for one transaction, of conditions as of operations."""


class Entry(msgspec.Struct, frozen=True):
    """A key as it stands: revision 5 created it, revision 9 wrote it last."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class Snapshot(msgspec.Struct, frozen=True):
    """All keys of a prefix at one revision, in the order of the keys."""

    revision: int
    entries: tuple[Entry, ...]


class Written(msgspec.Struct, frozen=True):
    """Condition: the key was last written at this revision; 0: it does not exist."""

    key: str
    mod_revision: int


class Created(msgspec.Struct, frozen=True):
    """Condition: the key was created at this revision; 0: it does not exist."""

    key: str
    create_revision: int


Compare = Written | Created


class Put(msgspec.Struct, frozen=True):
    """Write a key. With a lease, the key goes when the lease ends; 0 is no lease."""

    key: str
    value: bytes
    lease_id: int = 0


class Delete(msgspec.Struct, frozen=True):
    """Remove a key; one that does not exist changes nothing."""

    key: str


Operation = Put | Delete


class Write(msgspec.Struct, frozen=True):
    """Operations that hold only while what they were computed from has not changed."""

    compare: tuple[Compare, ...]
    operations: tuple[Operation, ...]


class TxnResult(msgspec.Struct, frozen=True):
    """`revision` is that of the change, or the store's latest if nothing changed."""

    succeeded: bool
    revision: int


class Event(msgspec.Struct, frozen=True):
    """A key was written, or deleted if `entry` is None."""

    key: str
    entry: Entry | None


class Changes(msgspec.Struct, frozen=True):
    """Everything that one revision changed under the watched prefix."""

    revision: int
    events: tuple[Event, ...]


class Compacted(Exception):
    """The changes since the revision asked for are not kept any more: read the prefix again."""


class Lease(Protocol):
    """Keys that live as long as their owner shows itself."""

    @property
    def id(self) -> int: ...

    async def keep_alive(self) -> bool:
        """Show oneself. False: the lease has ended, and its keys are gone."""
        ...

    async def revoke(self) -> None:
        """End the lease and delete its keys."""
        ...


class MetadataStore(Protocol):
    """Any method raises OSError when the store cannot be reached or is broken."""

    async def get(self, key: str) -> Entry | None: ...

    async def range(self, prefix: str) -> Snapshot: ...

    async def txn(self, compare: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        """All operations if all conditions hold, else none. When it returns, the change is durable.

        Raises ValueError for more than MAX_OPERATIONS, or for one key in two operations.
        """
        ...

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes]:
        """Changes from `from_revision` on, in the order of revisions, without end.

        Raises Compacted if they are not kept any more.
        """
        ...

    async def lease(self, ttl_ms: int) -> Lease: ...

    async def close(self) -> None: ...


def check_limits(compare: Sequence[Compare], operations: Sequence[Operation]) -> None:
    """What every store refuses, so that the embedded one takes nothing that etcd would not."""
    if len(compare) > MAX_OPERATIONS or len(operations) > MAX_OPERATIONS:
        raise ValueError(f"more than {MAX_OPERATIONS} operations in one transaction")
    if len({operation.key for operation in operations}) < len(operations):
        raise ValueError("one key is in two operations of a transaction")
