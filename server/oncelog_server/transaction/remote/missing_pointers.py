"""Writes the pointers that a single broker has left out. A single broker has all shards of
transactional ids, so it finds the group of an id without a pointer. When other brokers join, all
shards are still on the first broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from oncelog_server.coordinator.runtime import Work
from oncelog_server.deferred import Deferred, Unheard
from oncelog_server.slices import Steps
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.grouped.owners import is_here
from oncelog_server.transaction.remote.claims import decide_pointers
from oncelog_server.transaction.shard import TransactionShard

# The look at an id takes three microseconds, its record takes ten.
LOOKED_AT_PER_STEP: Final = 200
POINTERS_PER_BATCH: Final = 200
# A batch is full once its ids and groups have this size. That is far below every usual
# `max.message.bytes`, although the last id and its group may add up to 64 KiB.
BYTES_PER_BATCH: Final = 131_072


class MissingPointers:
    """Searches the groups of all loaded shards, in slices. `transactions` is the coordinator of
    this broker, and serves no transactional id before the search has ended. So no id moves
    meanwhile. `shard_count` returns the number of shards of the cluster."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        work: Work,
        wall_ms: Callable[[], int],
        shard_count: Callable[[], int],
    ) -> None:
        self._transactions = transactions
        self._work = work
        self._wall_ms = wall_ms
        self._shard_count = shard_count
        # The search in progress, or the last search if it has failed.
        self._search: _Search | None = None
        # The coordinator epochs of the shards that the last successful search has searched.
        self._searched: dict[int, int] | None = None

    def are_written(self) -> bool:
        """Return True if all missing pointers between the loaded shards are committed. Otherwise
        begin a search, unless a search of the same shards is in progress."""
        shards = self._shards()
        epochs = _epochs(shards)
        if self._searched == epochs:
            return True
        search = self._search
        if search is None or search.has_failed or search.shards != shards:
            has_all = len(shards) == self._shard_count()
            search = self._search = _Search(shards, has_all_shards=has_all)
            self._work(self._steps(search))
        return self._searched == epochs

    def _shards(self) -> dict[int, TransactionShard]:
        return dict(self._transactions.runtime.shards())

    def _end(self, search: _Search) -> None:
        """Forget a search that has succeeded. The shards and the ids that it has found would stay
        in memory otherwise."""
        if search is not self._search or not search.has_succeeded:
            return
        self._search = None
        # If a shard was unloaded meanwhile, the search may have missed its ids, even if the shard
        # was loaded again in the same epoch.
        if search.shards == self._shards():
            self._searched = _epochs(search.shards)

    def _steps(self, search: _Search) -> Steps[None]:
        try:
            for shard in search.shards.values():
                ids = iter(list(shard.groups.memberships))
                while some := list(islice(ids, LOOKED_AT_PER_STEP)):
                    for transactional_id in some:
                        index = self._look_at(search, shard, transactional_id)
                        if index is not None and search.found[index].is_full:
                            self._write(search, index)
                            yield
                    yield
                    if search is not self._search:
                        return  # a shard was loaded or unloaded, and another search has begun
            for index in search.found:
                self._write(search, index)
                yield
            search.is_at_its_end = True
        finally:
            search.has_failed = search.has_failed or not search.is_at_its_end
        self._end(search)

    def _look_at(
        self, search: _Search, shard: TransactionShard, transactional_id: str
    ) -> int | None:
        """If the id is in a group of `shard` and lacks its pointer, add the id to the found ids,
        and return the index of the id's own shard."""
        index = self._transactions.shard_of(transactional_id).partition
        own = search.shards.get(index)
        group_id = shard.group_of(transactional_id)
        if own is None or group_id is None or not is_here(shard, transactional_id):
            return None
        if _points_to(own, transactional_id, group_id):
            return None
        if not search.has_all_shards and own.pointers.get(transactional_id) is not None:
            # Only a single broker moves an id without a change of its pointer, and it has all
            # shards. If other brokers have some of them, the pointer may be newer than the group
            # in this broker's memory: another broker may lead the group's shard by now.
            return None
        search.found.setdefault(index, _Batch()).add(transactional_id, group_id, shard)
        return index

    def _write(self, search: _Search, index: int) -> None:
        """Let the found ids of a shard point to their groups."""
        runtime, own = self._transactions.runtime, search.shards[index]
        batch, search.found[index] = search.found[index], _Batch()
        # An id may have expired since the search has found it, or its shard was unloaded.
        groups = [
            (transactional_id, group_id)
            for transactional_id, (group_id, shard) in batch.ids.items()
            if is_here(shard, transactional_id) and shard.group_of(transactional_id) == group_id
        ]
        if not groups or not runtime.is_in_service(index, own):
            return

        def written(is_committed: bool) -> None:
            search.in_flight -= 1
            search.has_failed = search.has_failed or not is_committed
            self._end(search)

        search.in_flight += 1
        result = runtime.run(index, decide_pointers(groups, wall_ms=self._wall_ms()))
        if not isinstance(result, Deferred):
            written(result)
            return

        def abandoned() -> None:
            written(False)
            if result.failure is not None:
                Unheard.give([result.failure])

        result.on_complete(written)
        result.on_abandon(abandoned)


class _Batch:
    """The ids of one shard that lack a pointer, each with its group and the group's shard."""

    __slots__ = ("ids", "size")

    def __init__(self) -> None:
        self.ids: dict[str, tuple[str, TransactionShard]] = {}
        self.size = 0

    def add(self, transactional_id: str, group_id: str, shard: TransactionShard) -> None:
        self.ids[transactional_id] = group_id, shard
        self.size += len(transactional_id) + len(group_id)

    @property
    def is_full(self) -> bool:
        return len(self.ids) >= POINTERS_PER_BATCH or self.size >= BYTES_PER_BATCH


class _Search:
    """A search of these shards. `has_all_shards`: no other broker has a shard. `found` has the ids
    without a pointer that are not in a record yet, by the shard of the id. `in_flight` counts the
    batches of pointers that are not committed."""

    def __init__(self, shards: Mapping[int, TransactionShard], *, has_all_shards: bool) -> None:
        self.shards = shards
        self.has_all_shards = has_all_shards
        self.found: dict[int, _Batch] = {}
        self.in_flight = 0
        self.is_at_its_end = False
        self.has_failed = False

    @property
    def has_succeeded(self) -> bool:
        return self.is_at_its_end and not self.in_flight and not self.has_failed


def _epochs(shards: Mapping[int, TransactionShard]) -> dict[int, int]:
    return {index: shard.coordinator_epoch for index, shard in shards.items()}


def _points_to(shard: TransactionShard, transactional_id: str, group_id: str) -> bool:
    pointer = shard.pointers.get(transactional_id)
    return pointer is not None and pointer.group_id == group_id
