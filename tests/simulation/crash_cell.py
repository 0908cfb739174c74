"""One cell of the crash matrix: a transaction, a broker that dies or pauses at a given point, and
the client's behavior afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, TypeVar

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.topic_partition import TopicPartition
from tests.server.storage.memory_files import Stopped
from tests.server.transaction.world import DATA, OFFSETS, World, value_of
from tests.simulation.checking.internal_records import Transition, read_transitions
from tests.simulation.checking.invariants import check_files, check_settled
from tests.simulation.checking.live import check_live
from tests.simulation.checking.logs import PartitionLog, partitions_in
from tests.simulation.checking.promises import Appended, Ended, Promises
from tests.simulation.checking.violations import Violation
from tests.simulation.crash_points import Point, Trap, TrappedFiles, When
from tests.simulation.live_view import broker_view

T = TypeVar("T")

TIMEOUT_MS = 60_000
RETRIED = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


class Fault(Enum):
    """A fault of the broker. In a cell with KILL or POWER_LOSS, the broker acknowledges records
    before it flushes them. In all other cells, it flushes first."""

    KILL = "kill"
    KILL_FLUSHING = "kill-flushing"
    POWER_LOSS_FLUSHING = "power-loss-flushing"
    POWER_LOSS = "power-loss"
    PAUSE = "pause"
    LONG_PAUSE = "long-pause"

    @property
    def flushes(self) -> bool:
        return self not in (Fault.KILL, Fault.POWER_LOSS)

    @property
    def pause_ms(self) -> int:
        """Return the length of a pause (SIGSTOP) in ms, or 0 for another fault. PAUSE is longer
        than the client's timeouts, LONG_PAUSE also longer than the transaction's timeout."""
        return {Fault.PAUSE: 35_000, Fault.LONG_PAUSE: 2 * TIMEOUT_MS}.get(self, 0)

    @property
    def is_promised(self) -> bool:
        """Return True if all acknowledged records must survive the fault."""
        return self is not Fault.POWER_LOSS


class Client(Enum):
    """The client after the fault: the same producer continues, the producer has died too, or a
    newer instance replaces it at once."""

    RETRIES = "retries"
    DIES = "dies"
    REPLACED = "replaced"


class Died(Exception):
    """The client process has ended."""


@dataclass
class Cell:
    """One cell. `result`: the code of EndTxn at the client, or the error of an earlier request that
    has ended the client. None if the client got neither."""

    point: Point
    committed: bool
    version: int
    fault: Fault
    client: Client
    seed: int = 0
    promises: Promises = field(default_factory=Promises)
    result: ErrorCode | None = None
    hit: bool = False

    def __post_init__(self) -> None:
        self.files = TrappedFiles()
        self.world = World(self.files, flush_on_ack=self.fault.flushes)
        self.trap = Trap(self.point, self.fault.flushes, self._spring)
        self.files.trap = self.trap
        self.before: dict[tuple[str, int], PartitionLog] = {}
        self.violations: list[Violation] = []
        # The last state of the transactional id in the logs after a restart: one element or none.
        self.found: list[Transition] = []
        self.producer = (-1, -1)
        self.lost_answer = False

    # --- the broker

    def _spring(self) -> None:
        self.hit = True
        if self.fault.pause_ms:
            self.world.timers.now_ms += self.fault.pause_ms
            self.lost_answer = True
            return
        raise Stopped(self.point.name)

    def logs(self) -> dict[tuple[str, int], PartitionLog]:
        """Return the logs with the page cache, as the broker sees them."""
        nodes = self.world.files.nodes
        return partitions_in({path: bytes(node.data) for path, node in nodes.items()})

    def look(self, *, settled: bool = False) -> list[Violation]:
        """Return the violations in the broker's files and memory."""
        logs, world = self.logs(), self.world
        view = broker_view(world.partitions.values(), world.transactions, world.groups)
        found = check_files(logs, lossy=not self.fault.is_promised)
        found += check_live(logs, view, settled=settled)
        if settled:
            found += check_settled(logs)
        return found

    def _restart(self) -> None:
        self.before = self.logs()
        for key, log in self.before.items():
            if self.fault.flushes and self.fault is not Fault.KILL_FLUSHING:
                log.high_watermark = self.world.partitions[TopicPartition(*key)].high_watermark
        lost = self.fault in (Fault.POWER_LOSS, Fault.POWER_LOSS_FLUSHING)
        self.world = self.world.crash(power_loss=Random(self.seed) if lost else None)
        self.found = read_transitions(self.logs()["__transaction_state", 0])[-1:]
        self.violations += self.look()
        if not self.fault.is_promised:
            self.promises.forget()
            self.before = {}

    def rest(self, advance_ms: int) -> None:
        """Let time pass. Scan for overdue transactions every second."""
        for _ in range(max(advance_ms // 1_000, 1)):
            self.world.settle(min(advance_ms, 1_000))
            self.world.transactions.abort_overdue(100)
        self.world.settle()

    # --- the client

    def ask(self, request: Callable[[World], Any], code_of: Callable[[Any], ErrorCode]) -> Any:
        """Repeat a request until the response is final, and return it."""
        for _ in range(60):
            self.lost_answer = False
            try:
                response = request(self.world)
                self._await(response)
            except Stopped:
                self._restart()
                if self.client is not Client.RETRIES:
                    raise Died from None
                continue
            if self.lost_answer:
                # The client has closed the connection during the broker's pause.
                self.rest(1_000)
                if self.client is not Client.RETRIES:
                    raise Died
                continue
            value = value_of(response)
            if code_of(value) not in RETRIED:
                return value
            self.rest(500)
        raise AssertionError("no final response to any of 60 requests")

    def _await(self, response: object) -> None:
        """Wait for a response. The broker works during the wait, and continues after the
        response."""
        while isinstance(response, Deferred) and not response.done:
            assert not response.abandoned
            if self.world.files.pending:
                self.world.files.pending.pop(0)()
            else:
                self.world.timers.run_soon()
                assert self.world.files.pending or self.world.timers.run_next(
                    self.world.now() + 5_000
                )

    def run(self) -> None:
        """Run the whole transaction, as far as the client can."""
        self.producer = self.world.producer()
        self.promises.hands(*self.producer, "first")
        self.trap.is_armed = True
        try:
            for partition in DATA:
                self._send(partition)
            self._send_offset()
            self._end()
        except Died:
            return

    def _add(self, partition: TopicPartition) -> None:
        version = 2 if self.version == 2 else 0
        result = self.ask(
            lambda world: world.add(self.producer, partition, version=version),
            lambda result: ErrorCode(result.code),
        )
        if result.code is not ErrorCode.NONE:
            self.result = result.code
            raise Died
        self.promises.registered.append(("t", *self.producer, partition))

    def _send(self, partition: TopicPartition) -> None:
        if self.version == 1:
            self._add(partition)

        def request(world: World) -> Any:
            append, later = world.produce(
                self.producer, partition, 0, b"first", adds_partitions=self.version == 2
            )
            if later is None:
                return append
            response: Deferred[Any] = Deferred()
            later.on_complete(lambda _: response.complete(append))
            return response

        append = self.ask(request, lambda append: ErrorCode(append.code))
        if append.code is not ErrorCode.NONE:
            self.result = append.code
            raise Died
        offset = append.appended.base_offset
        self.promises.appended.append(Appended(partition, *self.producer, 0, offset))

    def _send_offset(self) -> None:
        self._add(OFFSETS)
        response = self.ask(
            lambda world: world.commit_offset(self.producer, 5), lambda _: ErrorCode.NONE
        )
        code = response.topics[0].partitions[0].error_code
        assert code == ErrorCode.NONE, ErrorCode(code)

    def _end(self) -> None:
        if self.point.when is When.ANSWERED:
            self.world.scene.leaderless |= {*DATA, OFFSETS}
        first = self.world

        def request(world: World) -> Any:
            return world.end(self.producer, self.committed, bumps_epoch=self.version == 2)

        self.result = self.ask(request, lambda result: ErrorCode(result.code)).code
        if self.result is ErrorCode.NONE:
            self.promises.ended.append(Ended("t", *self.producer, self.committed))
        if self.point.when is When.ANSWERED:
            self._after_the_answer(first)
        self._finish()

    def _after_the_answer(self, first: World) -> None:
        try:
            self.trap.answered()
        except Stopped:
            self._restart()
        first.scene.leaderless.clear()

    def _finish(self) -> None:
        """Finish the broker's work after the response. The broker may die here."""
        try:
            self.rest(1_000)
        except Stopped:
            self._restart()
