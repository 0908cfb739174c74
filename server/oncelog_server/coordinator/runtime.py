"""Runs the shards of one internal topic.

A decision is the result of a request to a shard: records, a response and effects. The
runtime appends the records, parks the response until the commit, replays the records and carries
out the effects.

Inputs are leadership events of the topic's partitions (`lead`, `resign`) and decisions. The runtime
is pure: the partition writes the records, and calls back when the high watermark has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch, build_single_record_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.coordinator.load_times import LoadTimes
from oncelog_server.coordinator.loading import replay_log
from oncelog_server.coordinator.shard import (
    COMMITTED,
    FAILED,
    TAKEN,
    Decision,
    Effect,
    EffectTable,
    Park,
    Shard,
)
from oncelog_server.deferred import Deferred, pass_on
from oncelog_server.log.results import Origin
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.slices import Steps, at_its_end

R = TypeVar("R")
S = TypeVar("S", bound=Shard)
T = TypeVar("T")


def carry_out(
    table: EffectTable[S], moment: int, shard: S, effects: Iterable[Effect], *code: int
) -> None:
    """Run the functions of the effects for this `moment`, in order. `code` is the error of the
    moment FAILED. Raises KeyError if an effect has no row."""
    for effect in effects:
        action: Callable[..., None] | None = table[type(effect)][moment]
        if action is not None:
            action(shard, effect, *code)


class ReplayAt(Enum):
    """The moment at which a decision is replayed. Groups replay at the append, transactions at the
    commit."""

    APPEND = "append"
    COMMIT = "commit"


class LoadedShard(msgspec.Struct, Generic[S]):
    """A shard in service, and the partition that has its records."""

    partition: Partition
    shard: S
    epoch: int


class Work(Protocol):
    """The function that runs the steps of a load: `Slices.run`, or one that runs all steps at
    once."""

    def __call__(self, steps: Steps[T], /) -> T | Deferred[T]: ...


class _Load:
    """An attempt to load a shard. Attempts are compared by identity."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


class ShardRuntime(Generic[S]):
    """The shards of one internal topic. `new_shard(partition, coordinator_epoch)` returns an empty
    shard. `on_loaded` is called after the replay of a shard. `on_unloaded` is called for a shard,
    also a partly loaded one, when this broker stops leading its partition or leads it in a new
    epoch. `effects` has a row for each effect of a decision. `work` runs the load of a shard, in
    slices if possible."""

    def __init__(
        self,
        *,
        replay_at: ReplayAt,
        new_shard: Callable[[int, int], S],
        on_loaded: Callable[[int, S], None],
        on_unloaded: Callable[[S], None],
        effects: EffectTable[S],
        wall_ms: Callable[[], int],
        work: Work = at_its_end,
    ) -> None:
        self._effects = effects
        self._replay_at = replay_at
        self._new_shard = new_shard
        self._on_loaded = on_loaded
        self._on_unloaded = on_unloaded
        self._wall_ms = wall_ms
        self._shards: dict[int, LoadedShard[S]] = {}
        self._work = work
        # The partitions with shards that are being loaded, each with its attempt.
        self._loading: dict[int, _Load] = {}
        # Partitions with a failed load. Their requests are refused until the next leadership event,
        # because a shard is never served in part (S14).
        self._refused: dict[int, str] = {}
        self.load_times = LoadTimes()

    # --- leadership

    def lead(self, partition: Partition) -> Deferred[None] | None:
        """Load the shard of a partition that this broker leads now. Until the shard is loaded and
        its last record is committed, requests get COORDINATOR_LOAD_IN_PROGRESS.

        If the log cannot be read, raise ValueError, or abandon the returned Deferred with
        ValueError. Requests then get COORDINATOR_NOT_AVAILABLE.
        """
        index = partition.topic_partition.partition
        epoch = partition.leader_epoch
        loaded, loading = self._shards.get(index), self._loading.get(index)
        if (loaded is not None and loaded.epoch == epoch) or (
            loading is not None and loading.epoch == epoch
        ):
            return None
        self.resign(index)
        load = self._loading[index] = _Load(epoch)
        return self._work(self._load(index, partition, load))

    def _load(self, index: int, partition: Partition, load: _Load) -> Steps[None]:
        shard = self._new_shard(index, load.epoch)
        began_ms = self._wall_ms()
        steps = replay_log(partition, shard)
        while True:
            if self._loading.get(index) is not load:
                # Another broker leads the partition now, or the leader epoch has changed.
                self._on_unloaded(shard)
                return
            try:
                next(steps)
            except StopIteration:
                break
            except Exception as error:
                del self._loading[index]
                self._refused[index] = str(error)
                raise
            yield
        replayed = LoadedShard(partition, shard, load.epoch)
        end_offset = partition.log_end_offset
        if partition.high_watermark >= end_offset:
            self._serve(index, load, replayed, began_ms)
        else:
            # An uncommitted decision is lost if this leader is lost. Until the commit, its effects
            # must not leave this broker, and its state must not be shown: markers of a lost PREPARE
            # would commit a part of a transaction that the next coordinator aborts.
            partition.when_committed(
                end_offset, lambda code: self._serve(index, load, replayed, began_ms, code)
            )

    def _serve(
        self,
        index: int,
        load: _Load,
        replayed: LoadedShard[S],
        began_ms: int,
        code: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Put a replayed shard in service, unless its load has been replaced meanwhile. `code` is
        an error if this broker will never commit the shard's last record."""
        if self._loading.get(index) is not load:
            self._on_unloaded(replayed.shard)
            return
        del self._loading[index]
        if code is not ErrorCode.NONE:
            self._refused[index] = f"the last records of the log are not committed: {code.name}"
            self._on_unloaded(replayed.shard)
            return
        self.load_times.add(max(self._wall_ms() - began_ms, 0))
        self._shards[index] = replayed
        self._on_loaded(index, replayed.shard)

    def resign(self, index: int) -> None:
        self._refused.pop(index, None)
        self._loading.pop(index, None)
        loaded = self._shards.pop(index, None)
        if loaded is not None:
            self._on_unloaded(loaded.shard)

    def refuse(self, index: int, reason: str) -> None:
        """Refuse the shard of a partition that this broker leads but cannot read. Requests get
        COORDINATOR_NOT_AVAILABLE, with `reason`, until the next leadership event."""
        self.resign(index)
        self._refused[index] = reason

    # --- look-ups

    def __len__(self) -> int:
        return len(self._shards)

    def shard(self, index: int) -> S:
        """Return the shard. Raises Refused with NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
        After a failed load the code is COORDINATOR_NOT_AVAILABLE."""
        loaded = self._shards.get(index)
        if loaded is None:
            if index in self._loading:
                raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            if index in self._refused:
                raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, self._refused[index])
            raise Refused(ErrorCode.NOT_COORDINATOR)
        if not loaded.partition.is_leader:
            # Another broker may coordinate the shard by now (`Partition.suspend`), so no response
            # may come from memory.
            raise Refused(ErrorCode.NOT_COORDINATOR)
        return loaded.shard

    @property
    def is_loading(self) -> bool:
        """Return True if a shard is being loaded."""
        return bool(self._loading)

    @property
    def has_refused(self) -> bool:
        """Return True if the load of a shard has failed, and this broker still leads its
        partition."""
        return bool(self._refused)

    @property
    def loading(self) -> Collection[int]:
        """Return the partitions with shards that are being loaded."""
        return self._loading.keys()

    def is_loaded(self, index: int) -> bool:
        """Return True if the shard of that partition is in service here."""
        return index in self._shards

    def is_in_service(self, index: int, shard: S) -> bool:
        """Return True if `shard` is still in service. Return False if `shard` was unloaded, even if
        the partition was loaded again."""
        loaded = self._shards.get(index)
        return loaded is not None and loaded.shard is shard

    def partition(self, index: int) -> Partition:
        """Return the partition with the shard's records. Raises Refused with the codes of
        `shard`."""
        self.shard(index)
        return self._shards[index].partition

    def shards(self) -> Iterator[tuple[int, S]]:
        """Yield every shard that is in service when the iteration begins, in the order of
        partitions. A shard that is unloaded during the iteration is still yielded."""
        for index, led in sorted(self._shards.items(), key=itemgetter(0)):
            yield index, led.shard

    # --- decisions

    def run(self, index: int, decision: Decision[R]) -> R | Deferred[R]:
        """Append the records of a decision and carry out its effects. Return the response. If the
        records are not committed yet, return the Deferred that gets the response at the commit."""
        loaded = self._shards[index]
        response = self._take(loaded, decision)
        if not decision.records:
            carry_out(self._effects, COMMITTED, loaded.shard, decision.effects)
            return self._once_state_is_committed(loaded, response)
        try:
            end_offset = self._append(loaded, decision)
        except Refused as refused:
            return self._failed(loaded, decision, response, refused.code)
        if loaded.partition.high_watermark >= end_offset:
            self._committed(loaded, decision, end_offset)
            return response
        parked: Deferred[R] = Deferred()

        def settled(code: ErrorCode) -> None:
            if not self.is_in_service(index, loaded.shard):
                # The shard was loaded again, in a new leader epoch of this broker, and the decision
                # is part of the new shard. The client asks again, as after a move.
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            try:
                if code is ErrorCode.NONE:
                    self._committed(loaded, decision, end_offset)
                    final = response
                else:
                    # The batch is not committed, and will never be committed while this broker
                    # leads.
                    final = self._failed(loaded, decision, response, code)
            except Exception as failure:
                # An exception is a defect. It fails only this request, and not the request that
                # has moved the high watermark.
                parked.abandon(failure)
                return
            pass_on(final, parked)

        loaded.partition.when_committed(end_offset, settled)
        return parked

    def _take(self, loaded: LoadedShard[S], decision: Decision[R]) -> R | Deferred[R]:
        """Carry out the effects that come before the append. Return the response."""
        carry_out(self._effects, TAKEN, loaded.shard, decision.effects)
        response = decision.response
        if not isinstance(response, Park):
            return response
        answer: Deferred[R] = Deferred()
        loaded.shard.park(response, answer)
        return answer

    def _once_state_is_committed(
        self, loaded: LoadedShard[S], response: R | Deferred[R]
    ) -> R | Deferred[R]:
        """Return the response of a decision without records. If it may show state that is replayed
        at the append and not committed yet, return a Deferred that gets the response at the commit,
        because a crash might undo this state."""
        partition = loaded.partition
        if (
            self._replay_at is ReplayAt.COMMIT
            or partition.is_committed
            or isinstance(response, Deferred)
        ):
            return response
        parked: Deferred[R] = Deferred()

        def settled(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                parked.complete(response)
            else:
                # The response was based on state that will never be committed here.
                parked.abandon()

        partition.when_committed(partition.log_end_offset, settled)
        return parked

    def _append(self, loaded: LoadedShard[S], decision: Decision[R]) -> int:
        # Coordinators append as producers with acks=all do.
        loaded.partition.check_in_sync_replicas()
        now_ms = self._wall_ms()
        records = decision.records
        transaction = decision.transaction
        if transaction is None:
            if len(records) == 1:
                batch = build_single_record_batch(now_ms, *records[0])
            else:
                batch = build_batch([NewRecord(now_ms, *record) for record in records])
            base_offset = loaded.partition.append_decided(batch, len(records), now_ms=now_ms)
        else:
            batch = build_batch(
                [NewRecord(now_ms, *record) for record in records],
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                base_sequence=0,
                is_transactional=True,
            )
            appended = loaded.partition.append(batch, now_ms=now_ms, origin=Origin.COORDINATOR)
            base_offset = appended.base_offset
        if self._replay_at is ReplayAt.APPEND:
            self._replay(loaded, decision, base_offset)
        return base_offset + len(records)

    def _replay(self, loaded: LoadedShard[S], decision: Decision[R], base_offset: int) -> None:
        for index, record in enumerate(decision.records):
            loaded.shard.replay(
                record, offset=base_offset + index, transaction=decision.transaction
            )

    def _failed(
        self,
        loaded: LoadedShard[S],
        decision: Decision[R],
        response: R | Deferred[R],
        code: ErrorCode,
    ) -> R | Deferred[R]:
        """End a decision with an error. Its records are not in the log, or this broker never
        commits them."""
        carry_out(self._effects, FAILED, loaded.shard, decision.effects, code)
        if isinstance(decision.response, Park) and isinstance(response, Deferred):
            loaded.shard.unpark(decision.response, response)
        return response if decision.failed is None else decision.failed(code)

    def _committed(self, loaded: LoadedShard[S], decision: Decision[R], end_offset: int) -> None:
        """Finish a decision after the high watermark has passed its records."""
        if self._replay_at is ReplayAt.COMMIT:
            self._replay(loaded, decision, end_offset - len(decision.records))
        carry_out(self._effects, COMMITTED, loaded.shard, decision.effects)
