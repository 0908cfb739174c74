"""The keys of a simulated etcd: one linearizable map, with the versions of each key and the events
of each revision since the last compaction."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from tests.simulation.etcd.failures import (
    COMPACTED,
    DUPLICATE_KEY,
    FUTURE,
    NO_KEY,
    TOO_MANY_OPERATIONS,
    EtcdFailure,
)
from tests.simulation.etcd.leases import Leases

MAX_OPERATIONS: Final = 128
# The end of a range of all keys from `key` on.
NO_END: Final = b"\0"


class KeyRange(NamedTuple):
    """The keys from `key` to before `end`. Without an end, only `key`."""

    key: bytes
    end: bytes = b""

    def has(self, key: bytes) -> bool:
        if not self.end:
            return key == self.key
        return self.key <= key and (self.end == NO_END or key < self.end)


class KeyValue(NamedTuple):
    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int = 0


NONE: Final = KeyValue(b"", b"", 0, 0, 0)
"""A key that does not exist, for conditions."""


class Event(NamedTuple):
    """A change of a key: `present` is None if it was deleted."""

    key: bytes
    present: KeyValue | None


class Commit(NamedTuple):
    """All events of one revision, in the order of the operations."""

    revision: int
    events: tuple[Event, ...]


class Put(NamedTuple):
    key: bytes
    value: bytes = b""
    lease: int = 0


class Delete(NamedTuple):
    keys: KeyRange


class Read(NamedTuple):
    """`revision` 0 is the newest. `limit` 0 is no limit."""

    keys: KeyRange
    revision: int = 0
    limit: int = 0


Operation = Put | Delete | Read


class Found(NamedTuple):
    """The result of a Read. `total` is the number of keys without the limit."""

    kvs: list[KeyValue]
    total: int


Result = Found | int | None
"""Of a Read; of a Delete, the number of deleted keys; of a Put, None."""


class Condition(NamedTuple):
    """The condition that `field` of all keys in `keys` has this relation to `value`. If there is no
    key, the field counts as zero."""

    keys: KeyRange
    field: str
    relation: str
    value: int


class Outcome(NamedTuple):
    """`revision` is the revision of the change, or the newest revision without a change. Each
    result comes with the revision after its operation: the old one for a Read before the first
    change."""

    succeeded: bool
    results: list[tuple[Result, int]]
    revision: int


RELATIONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "EQUAL": operator.eq,
    "NOT_EQUAL": operator.ne,
    "GREATER": operator.gt,
    "LESS": operator.lt,
}


class Kv:
    """`compacted`: reads and watches of older revisions fail. `on_commit`: called after each
    commit."""

    def __init__(self, leases: Leases, revision: int = 1) -> None:
        self.revision = revision
        self.compacted = -1
        self.on_commit: list[Callable[[], None]] = []
        self._leases = leases
        self._keys: list[bytes] = []
        # The revisions and values of each key, in order. None: deleted.
        self._versions: dict[bytes, list[tuple[int, KeyValue | None]]] = {}
        self._commits: list[Commit] = []

    # Reading.

    def read(self, read: Read) -> Found:
        """Return the keys of a range at a revision. Raises EtcdFailure for a revision that is in
        the future or compacted."""
        self._check_revision(read.revision)
        found = [
            present
            for key in self._keys_of(read.keys)
            if (present := self._at(key, read.revision)) is not None
        ]
        return Found(found[: read.limit] if read.limit else found, len(found))

    def commits(self, keys: KeyRange, first: int) -> Iterator[Commit]:
        """Yield the commits from revision `first` on, each with its events in `keys`."""
        start = bisect_left(self._commits, first, key=lambda commit: commit.revision)
        for commit in self._commits[start:]:
            events = tuple(event for event in commit.events if keys.has(event.key))
            if events:
                yield Commit(commit.revision, events)

    def _check_revision(self, revision: int) -> None:
        if revision > self.revision:
            raise EtcdFailure(FUTURE)
        if 0 < revision < self.compacted:
            raise EtcdFailure(COMPACTED)

    def _keys_of(self, keys: KeyRange) -> list[bytes]:
        first = bisect_left(self._keys, keys.key)
        if not keys.end:
            last = bisect_right(self._keys, keys.key)
        else:
            last = len(self._keys) if keys.end == NO_END else bisect_left(self._keys, keys.end)
        return self._keys[first:last]

    def _at(self, key: bytes, revision: int = 0) -> KeyValue | None:
        versions = self._versions[key]
        if not revision:
            return versions[-1][1]
        index = bisect_right(versions, revision, key=lambda version: version[0])
        return versions[index - 1][1] if index else None

    # Writing.

    def txn(
        self,
        conditions: Sequence[Condition],
        success: Sequence[Operation],
        failure: Sequence[Operation],
    ) -> Outcome:
        """Carry out one of two lists of operations, at one revision. Raises EtcdFailure; then
        nothing has changed."""
        _check(conditions, success, failure)
        succeeded = all(map(self._holds, conditions))
        operations = success if succeeded else failure
        for operation in operations:
            if isinstance(operation, Put):
                self._leases.check(operation.lease)
        for operation in operations:
            if isinstance(operation, Read):
                self._check_revision(operation.revision)
        return Outcome(succeeded, *self._carry_out(operations))

    def delete(self, keys: Iterable[bytes]) -> None:
        """Delete keys at one revision, as the end of their lease does."""
        self._carry_out([Delete(KeyRange(key)) for key in sorted(keys)])

    def compact(self, revision: int) -> None:
        """Forget the versions and events before `revision`, and the deletions at `revision`.

        Raises EtcdFailure for a revision that is in the future or compacted.
        """
        if revision <= self.compacted:
            raise EtcdFailure(COMPACTED)
        if revision > self.revision:
            raise EtcdFailure(FUTURE)
        self.compacted = revision
        start = bisect_left(self._commits, revision, key=lambda commit: commit.revision)
        del self._commits[:start]
        if self._commits and self._commits[0].revision == revision:
            # etcd keeps the newest version of each key. A deletion is no version. So a watch from
            # exactly this revision misses its deletions.
            kept = tuple(event for event in self._commits[0].events if event.present is not None)
            self._commits[0] = Commit(revision, kept)
        for key, versions in list(self._versions.items()):
            index = bisect_right(versions, revision, key=lambda version: version[0])
            if index and versions[index - 1][1] is not None:
                index -= 1
            del versions[:index]
            if not versions:
                del self._versions[key]
                self._keys.remove(key)

    def _holds(self, condition: Condition) -> bool:
        relation = RELATIONS[condition.relation]
        found = self.read(Read(condition.keys)).kvs or [NONE]
        return all(
            relation(getattr(present, condition.field), condition.value) for present in found
        )

    def _carry_out(self, operations: Sequence[Operation]) -> tuple[list[tuple[Result, int]], int]:
        revision = self.revision + 1
        results: list[tuple[Result, int]] = []
        events: list[Event] = []
        for operation in operations:
            result: Result = None
            if isinstance(operation, Read):
                result = self.read(operation)
            elif isinstance(operation, Put):
                events.append(self._put(operation, revision))
            else:
                deleted = [
                    key for key in self._keys_of(operation.keys) if self._at(key) is not None
                ]
                events += [self._delete(key, revision) for key in deleted]
                result = len(deleted)
            results.append((result, revision if events else self.revision))
        if events:
            self.revision = revision
            self._commits.append(Commit(revision, tuple(events)))
            for tell in self.on_commit:
                tell()
        return results, self.revision

    def _put(self, put: Put, revision: int) -> Event:
        if put.key not in self._versions:
            self._versions[put.key] = []
            insort(self._keys, put.key)
        versions = self._versions[put.key]
        before = versions[-1][1] if versions else None
        present = KeyValue(
            put.key,
            put.value,
            revision if before is None else before.create_revision,
            revision,
            1 if before is None else before.version + 1,
            put.lease,
        )
        versions.append((revision, present))
        self._leases.attach(put.key, put.lease)
        return Event(put.key, present)

    def _delete(self, key: bytes, revision: int) -> Event:
        self._versions[key].append((revision, None))
        self._leases.attach(key, 0)
        return Event(key, None)


def _check(
    conditions: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation]
) -> None:
    """Raise EtcdFailure for a transaction that etcd refuses without reading the keys."""
    if max(len(conditions), len(success), len(failure)) > MAX_OPERATIONS:
        raise EtcdFailure(TOO_MANY_OPERATIONS)
    for condition in conditions:
        if not condition.keys.key:
            raise EtcdFailure(NO_KEY)
    for operation in (*success, *failure):
        key = operation.key if isinstance(operation, Put) else operation.keys.key
        if not key:
            raise EtcdFailure(NO_KEY)
    for operations in (success, failure):
        puts = [operation.key for operation in operations if isinstance(operation, Put)]
        deletes = [operation.keys for operation in operations if isinstance(operation, Delete)]
        if any(first == second for first, second in combinations(sorted(puts), 2)) or any(
            keys.has(key) for keys in deletes for key in puts
        ):
            raise EtcdFailure(DUPLICATE_KEY)
