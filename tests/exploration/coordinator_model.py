"""The transaction coordinator: the real shard with a log that commits one record at a time."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

from oncelog_server.coordinator.runtime import carry_out
from oncelog_server.coordinator.shard import (
    COMMITTED,
    TAKEN,
    CoordinatorRecord,
    Decision,
    Effect,
    EffectRow,
    EffectTable,
)
from oncelog_server.transaction.effects import CompleteLater, ReleaseResponse, WriteMarkers
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.metadata import TransactionMetadata
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.shard import EFFECTS, LiveTransaction, TransactionShard
from tests.exploration.partition_model import shallow_copy

WALL_MS = 1_000
NOW_MS = 1_000
TIMEOUT_MS = 60_000
MAX_TIMEOUT_MS = 900_000

# These effects do nothing here, because markers and responses are separate steps of the model.
_EFFECTS: EffectTable[TransactionShard] = {
    **EFFECTS,
    WriteMarkers: EffectRow(),
    CompleteLater: EffectRow(),
    ReleaseResponse: EffectRow(),
}


class Appended(NamedTuple):
    """A record of the log, with the epoch of the coordinator that wrote the record."""

    record: CoordinatorRecord
    coordinator_epoch: int


class Waiting(NamedTuple):
    """A decision in the log that is not committed, and the request that waits for it.

    `client`: None for the coordinator's own decisions (timeouts, COMPLETE).
    """

    transactional_id: str
    client: int | None
    request: object
    response: TransactionResult | None
    effects: tuple[Effect, ...] = ()

    @property
    def asked(self) -> object:
        """Return the request. A parked request (`Parked`) has a guard, which is left out."""
        return getattr(self.request, "request", self.request)


class CoordinatorModel:
    """The coordinator and its log. `committed`: the number of records below the high watermark."""

    __slots__ = ("committed", "epoch", "log", "shard", "waiting")

    def __init__(self) -> None:
        self.log: tuple[Appended, ...] = ()
        self.committed = 0
        self.epoch = 0
        self.shard = TransactionShard(0, max_timeout_ms=MAX_TIMEOUT_MS)
        self.waiting: tuple[Waiting, ...] = ()

    def clone(self) -> CoordinatorModel:
        twin = CoordinatorModel.__new__(CoordinatorModel)
        twin.log, twin.committed, twin.epoch = self.log, self.committed, self.epoch
        twin.waiting = self.waiting
        twin.shard = _clone_shard(self.shard)
        return twin

    def append(
        self, decision: Decision[TransactionResult] | Decision[None], waiting: Waiting
    ) -> None:
        assert len(decision.records) == 1
        self.log += (Appended(decision.records[0], self.epoch),)
        carry_out(_EFFECTS, TAKEN, self.shard, decision.effects)
        self.waiting += (waiting._replace(effects=decision.effects),)

    def commit_next(self) -> Waiting:
        """Move the high watermark by one record, and replay that record. Return the request that
        waited for it."""
        appended = self.log[self.committed]
        self.shard.replay(appended.record, offset=self.committed, transaction=None)
        self.committed += 1
        first, *rest = self.waiting
        self.waiting = tuple(rest)
        carry_out(_EFFECTS, COMMITTED, self.shard, first.effects)
        return first

    def restart(self, kept: int) -> list[MarkerWork]:
        """Start another process with the next epoch. The new process finds `kept` of the
        uncommitted records. Return the markers that it must send."""
        self.log = self.log[: self.committed + kept]
        self.committed = len(self.log)
        self.waiting = ()
        self.epoch += 1
        self.shard = TransactionShard(self.epoch, max_timeout_ms=MAX_TIMEOUT_MS)
        for offset, appended in enumerate(self.log):
            self.shard.replay(appended.record, offset=offset, transaction=None)
        self.shard.on_loaded(now_ms=NOW_MS, wall_ms=WALL_MS)
        works = [self.shard.marker_work(name) for name in self.shard.prepared]
        return [work for work in works if work is not None]

    def metadata(self, transactional_id: str) -> TransactionMetadata | None:
        live = self.shard.get(transactional_id)
        return None if live is None else live.metadata

    def key(self) -> tuple[object, ...]:
        lives = tuple(
            (name, live.metadata, live.pending, live.deadline_ms, tuple(sorted(live.markers_left)))
            for name, live in sorted(self.shard.transactions.items())
        )
        # The number of a parked request's guard does not matter: WorldModel.key says if the guard
        # holds.
        waiting = tuple(
            (transaction.client, transaction.transactional_id, transaction.asked)
            for transaction in self.waiting
        )
        return (self.log, self.committed, self.epoch, waiting, lives)


def _clone_shard(shard: TransactionShard) -> TransactionShard:
    twin = copy(shard)
    twin.transactions = {name: _clone_live(live) for name, live in shard.transactions.items()}
    twin.prepared = {name: twin.transactions[name] for name in shard.prepared}
    twin.ongoing = {name: twin.transactions[name] for name in shard.ongoing}
    twin._decided = dict(shard._decided)
    return twin


def _clone_live(live: LiveTransaction) -> LiveTransaction:
    twin = shallow_copy(live)
    # The model keeps the waiting requests itself (`CoordinatorModel.waiting`).
    twin.waiting = []
    if live.markers_left:
        twin.markers_left = set(live.markers_left)
    return twin
