"""The coordinator's pure core with a small runtime. Appends may fail, commits may be late, and the
process may crash. The monotonic time and the wall time are numbers.

`log` is the contents of the disk: first the committed records, then the records in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, TypeVar

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.runtime import carry_out
from oncelog_server.coordinator.shard import (
    COMMITTED,
    FAILED,
    TAKEN,
    CoordinatorRecord,
    Decision,
    EffectRow,
    EffectTable,
    Park,
)
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.commands.add_partitions import AddPartitions, decide_add_partitions
from oncelog_server.transaction.commands.end_txn import EndTxn, decide_complete, decide_end_txn
from oncelog_server.transaction.commands.fencing import decide_overdue
from oncelog_server.transaction.commands.init_producer_id import (
    InitProducerId,
    decide_init_producer_id,
)
from oncelog_server.transaction.effects import CompleteLater, WriteMarkers
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.metadata import TransactionMetadata, to_record
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.shard import EFFECTS, LiveTransaction, TransactionShard
from oncelog_server.transaction.states import State
from tests.server.coordinator.frozen import reading

WALL_MS = 1_700_000_000_000
ID = "t"
P0, P1, P2 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

P = ParamSpec("P")
R = TypeVar("R")
Answer = Deferred[TransactionResult]


@dataclass
class Driver:
    """A coordinator's shard in memory. With `holds_commits`, appended decisions stay in flight
    until `release`."""

    now_ms: int = 1_000
    log: list[CoordinatorRecord] = field(default_factory=list)
    committed: int = 0
    next_producer_id: int = 1_000
    append_error: ErrorCode | None = None
    holds_commits: bool = False
    # True: markers are written and transactions completed as soon as they are decided.
    finishes: bool = True
    markers: list[tuple[MarkerWork, TopicPartition]] = field(default_factory=list)
    max_timeout_ms: int = 900_000
    has_ids: bool = True
    # The principals of producer ids. An id without a row belongs to every principal.
    owners: dict[int, str] = field(default_factory=dict)
    # False if the states are too many or too large to be compared before and after each decision.
    compares: bool = True

    def __post_init__(self) -> None:
        # The effects of the coordinator, without timers and a network.
        self.effects: EffectTable[TransactionShard] = {
            **EFFECTS,
            WriteMarkers: EffectRow(committed=self._write_markers),
            CompleteLater: EffectRow(),
        }
        self._held: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.shard = self._loaded(0)

    def _loaded(self, epoch: int) -> TransactionShard:
        return loaded(self.log, epoch, self.max_timeout_ms, self.owner_of_id)

    def owner_of_id(self, producer_id: int) -> str:
        return self.owners.get(producer_id, "")

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    def new_producer_id(self, principal: str = "") -> int:
        if not self.has_ids:
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.next_producer_id += 1
        if principal:
            self.owners[self.next_producer_id - 1] = principal
        return self.next_producer_id - 1

    # --- what a runtime does

    def decide(self, decide: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Make a decision, and check that this does not change the shard's state. Every decision of
        these tests is made here."""
        if not self.compares:
            return decide(*args, **kwargs)
        return reading(self.shard, decide, *args, **kwargs)

    def run(self, decision: Decision[TransactionResult] | Decision[None]) -> Answer:
        """Carry out the decision. The response comes once the records of the decision are
        committed."""
        answer: Answer = Deferred()
        carry_out(self.effects, TAKEN, self.shard, decision.effects)
        response: Any = decision.response
        if isinstance(decision.response, Park):
            response = Deferred()
            self.shard.park(decision.response, response)

        def fail(code: ErrorCode) -> None:
            if isinstance(decision.response, Park):
                self.shard.unpark(decision.response, response)
            carry_out(self.effects, FAILED, self.shard, decision.effects, code)
            failed: Any = decision.failed
            answer.complete(response if failed is None else failed(code))

        if decision.records and self.append_error is not None:
            fail(self.append_error)
            return answer
        self.log += decision.records

        def commit() -> None:
            for record in decision.records:
                self.shard.replay(record, offset=self.committed, transaction=None)
                self.committed += 1
            carry_out(self.effects, COMMITTED, self.shard, decision.effects)
            if isinstance(response, Deferred):
                response.on_complete(answer.complete)
            else:
                answer.complete(response)

        if decision.records and self.holds_commits:
            self._held.append((commit, lambda: fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)))
        else:
            commit()
        return answer

    def _write_markers(self, shard: TransactionShard, effect: WriteMarkers) -> None:
        if self.finishes:
            for transactional_id in effect.transactional_ids:
                self.finish(transactional_id)

    def release(self) -> None:
        """Commit everything in flight."""
        while self._held:
            self._held.pop(0)[0]()

    def crash(self, *, keeps: int | None = None, down_ms: int = 0) -> None:
        """Load another shard from the log, with the first `keeps` uncommitted records, or with all
        of them if `keeps` is None."""
        del self.log[self.committed + (len(self.log) if keeps is None else keeps) :]
        self.committed = len(self.log)
        self._held.clear()
        self.now_ms += down_ms
        self.shard = self._loaded(self.shard.coordinator_epoch + 1)
        self.shard.on_loaded(now_ms=self.now_ms, wall_ms=self.wall_ms)
        if self.finishes:
            for transactional_id in list(self.shard.prepared):
                self.finish(transactional_id)

    def write_markers(self, transactional_id: str, at_most: int = 100) -> None:
        work = self.shard.marker_work(transactional_id)
        if work is None:
            return
        for partition in work.partitions[:at_most]:
            self.markers.append((work, partition))
            self.shard.marker_written(work, partition)

    def finish(self, transactional_id: str) -> None:
        """Write all markers and the COMPLETE record."""
        self.write_markers(transactional_id)
        decision = self.complete(transactional_id)
        if decision is not None:
            self.run(decision)

    def complete(self, transactional_id: str) -> Decision[None] | None:
        work = self.shard.marker_work(transactional_id)
        if work is None:
            return None
        return self.decide(decide_complete, self.shard, work, attempt=0, wall_ms=self.wall_ms)

    # --- commands. `add` and `end` name the consumer group of the transactional id

    def init(
        self, producer_id: int = -1, producer_epoch: int = -1, *, timeout_ms: int = 60_000,
        transactional_id: str = ID, two_phase: bool = False, keep: bool = False,
        caller: Client | None = None, by_operator: bool = False,
    ) -> Answer:  # fmt: skip
        command = InitProducerId(
            transactional_id,
            timeout_ms,
            producer_id,
            producer_epoch,
            two_phase,
            keep,
            caller,
            by_operator,
        )
        decision = self.decide(
            decide_init_producer_id,
            self.shard,
            command,
            wall_ms=self.wall_ms,
            new_producer_id=partial(self.new_producer_id, command.principal),
        )
        return self.run(decision)

    def add(
        self, producer_id: int, producer_epoch: int, *partitions: TopicPartition,
        transactional_id: str = ID, verify_only: bool = False, version: int = 2,
        caller: Client | None = None,
    ) -> Answer:  # fmt: skip
        command = AddPartitions(
            transactional_id, producer_id, producer_epoch, frozenset(partitions), version,
            verify_only, self.shard.group_of(transactional_id), caller,
        )  # fmt: skip
        decision = self.decide(
            decide_add_partitions, self.shard, command, now_ms=self.now_ms, wall_ms=self.wall_ms
        )
        return self.run(decision)

    def end(
        self, producer_id: int, producer_epoch: int, committed: bool, *, bumps_epoch: bool = True,
        transactional_id: str = ID,
    ) -> Answer:  # fmt: skip
        decision = self.decide(
            decide_end_txn,
            self.shard,
            EndTxn(
                transactional_id,
                producer_id,
                producer_epoch,
                committed,
                bumps_epoch,
                self.shard.group_of(transactional_id),
            ),
            wall_ms=self.wall_ms,
            new_producer_id=self.new_producer_id,
        )
        return self.run(decision)

    def abort_overdue(self) -> list[str]:
        overdue = self.shard.overdue(self.now_ms, 100)
        for transactional_id in overdue:
            decision = self.decide(
                decide_overdue,
                self.shard.ongoing[transactional_id],
                wall_ms=self.wall_ms,
                new_producer_id=self.new_producer_id,
            )
            self.run(decision)
        return overdue

    # --- states, without the commands that lead to them

    def put(self, state: State, **values: Any) -> None:
        """Append a record of the id to the log, and load the log in another shard."""
        fields: dict[str, Any] = {
            "producer_id": 77,
            "producer_epoch": 5,
            "timeout_ms": 60_000,
            "last_producer_epoch": 4,
            "start_ms": self.wall_ms,
            "last_update_ms": self.wall_ms,
            "client_transaction_version": 2,
            "partitions": frozenset({P0})
            if state in (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)
            else frozenset(),
        } | values
        metadata = TransactionMetadata(ID, state=state, **fields)
        self.log.append(to_record(metadata))
        self.crash()

    @property
    def live(self) -> LiveTransaction:
        found = self.shard.get(ID)
        assert found is not None
        return found

    @property
    def metadata(self) -> TransactionMetadata:
        return self.live.metadata

    @property
    def state(self) -> State:
        return self.metadata.state


def loaded(
    log: list[CoordinatorRecord],
    epoch: int,
    max_timeout_ms: int,
    owner_of_id: Callable[[int], str] = lambda producer_id: "",
) -> TransactionShard:
    shard = TransactionShard(epoch, max_timeout_ms=max_timeout_ms, owner_of_id=owner_of_id)
    for offset, record in enumerate(log):
        shard.replay(record, offset=offset, transaction=None)
    return shard
