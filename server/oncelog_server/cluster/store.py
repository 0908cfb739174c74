"""The interface of the metadata store. The model is etcd's; the embedded sqlite store has the same
model.

Keys are texts under the cluster's own prefix, values are small records. Every change has a
revision. A transaction changes all of its keys at one revision, or none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

import msgspec

MAX_OPERATIONS: Final = 128
"""etcd's default limit for the conditions of one transaction, and for its operations."""


class Entry(msgspec.Struct, frozen=True):
    """A key and its value, with the revisions that created it and wrote it last."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class Snapshot(msgspec.Struct, frozen=True):
    """All keys of a prefix at one revision, in the order of the keys."""

    revision: int
    entries: tuple[Entry, ...]


class Written(msgspec.Struct, frozen=True):
    """Condition: the key was last written at `mod_revision`. With 0, the key does not exist."""

    key: str
    mod_revision: int


class Created(msgspec.Struct, frozen=True):
    """Condition: the key was created at `create_revision`. With 0, the key does not exist."""

    key: str
    create_revision: int


Compare = Written | Created


class Put(msgspec.Struct, frozen=True):
    """Write a key. With a lease, the key is deleted when the lease ends. A `lease_id` of 0 means no
    lease, also for a key that had one."""

    key: str
    value: bytes
    lease_id: int = 0


class Delete(msgspec.Struct, frozen=True):
    """Delete a key. Nothing changes if it does not exist."""

    key: str


WriteOperation = Put | Delete


class Write(msgspec.Struct, frozen=True):
    """Operations, and the conditions under which they are still valid."""

    compare: tuple[Compare, ...]
    operations: tuple[WriteOperation, ...]


class TxnResult(msgspec.Struct, frozen=True):
    """The result of a transaction.

    `revision` is the revision of the change. It is 0 if nothing changed, because the store's newest
    revision may belong to a change of foreign keys, which no watch of this cluster shows. If a
    condition failed, `current` has the present entry of each key of `compare`, in the order of
    `compare`.
    """

    succeeded: bool
    revision: int
    current: tuple[Entry | None, ...] = ()


class Event(msgspec.Struct, frozen=True):
    """A change of one key: written, or deleted if `entry` is None."""

    key: str
    entry: Entry | None


class Changes(msgspec.Struct, frozen=True):
    """Everything that one revision changed under the watched prefix."""

    revision: int
    events: tuple[Event, ...]


class Compacted(Exception):
    """The store no longer keeps the changes since the given revision: read the prefix again."""


class LeaseEnded(Exception):
    """The lease has ended, and its keys are deleted."""


class UnknownOutcome(OSError):
    """A transaction has no response: it may have been carried out, or may still be carried out."""


class FinalFailure(OSError):
    """A failure that lasts until an operator acts: another attempt would end the same way."""


class LostMetadata(FinalFailure):
    """The store was emptied or restored while this broker ran. The broker's image is of the lost
    store, so nothing that the broker decides from it is valid."""

    def __init__(self, found: str) -> None:
        super().__init__(
            f"{found}, so this broker serves nothing: stop all brokers, run `oncelog cluster "
            "recover` unless that has been done, and start them again"
        )


class Lease(Protocol):
    """A lease: its keys exist as long as their owner renews it."""

    @property
    def id(self) -> int: ...

    @property
    def ttl_ms(self) -> int:
        """The time to live as the store has granted it. 0: the lease ends with the process."""
        ...

    async def keep_alive(self) -> int:
        """Renew the lease. Return its time to live in ms, as `ttl_ms`.

        The time counts from the sending of the request. A caller that reads its clock before the
        call never assumes too long a time. Raises LeaseEnded. Raises OSError if no response comes
        in time.
        """
        ...

    async def revoke(self) -> None:
        """End the lease and delete its keys. Nothing changes if it has ended."""
        ...


class MetadataStore(Protocol):
    """A store. Every method raises OSError if the store cannot be reached or is damaged."""

    async def get(self, key: str) -> Entry | None: ...

    async def range(self, prefix: str) -> Snapshot: ...

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        """Carry out all operations if all conditions hold, else none. Return when they are durable.

        Raises UnknownOutcome if the store may have carried out the operations. After any other
        exception, nothing has changed. Raises LeaseEnded if a Put has a lease that has ended.
        Raises ValueError for more than MAX_OPERATIONS conditions or operations, or for one key in
        two operations.
        """
        ...

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes]:
        """Yield the changes from `from_revision` on, in the order of revisions, without end.

        If the connection to the store breaks, the watch connects again and resumes. Raises
        Compacted if the store no longer keeps the changes.
        """
        ...

    async def lease(self, ttl_ms: int) -> Lease:
        """Return a new lease. The store may grant a longer time to live."""
        ...

    async def revoke_lease(self, lease_id: int) -> None:
        """End a lease, also that of another process. Nothing changes if it has ended."""
        ...

    async def close(self) -> None: ...


def check_limits(compare: Sequence[Compare], operations: Sequence[WriteOperation]) -> None:
    """Raise ValueError for a transaction that etcd would refuse, so that every store refuses it."""
    if len(compare) > MAX_OPERATIONS or len(operations) > MAX_OPERATIONS:
        raise ValueError(f"more than {MAX_OPERATIONS} operations in one transaction")
    if len({operation.key for operation in operations}) < len(operations):
        raise ValueError("one key is in two operations of a transaction")
