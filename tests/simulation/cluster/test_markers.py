"""Markers that a partition does not need any more, and a coordinator that dies before it knows
this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from oncelog_client import Admin, NewTopic, TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from oncelog_server.links.client_ids import markers_client_id
from tests.simulation.checking.internal_records import COMPLETE_COMMIT, PREPARE_COMMIT
from tests.simulation.checking.logs import PartitionLog
from tests.simulation.cluster.crash_points import Moment, Place, Point
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.raw_client import RawClient
from tests.simulation.cluster.stage import play
from tests.simulation.cluster.transaction_stage import AWAY_US, TransactionStage

Logs = Mapping[tuple[str, int], PartitionLog]

ANSWERED: Final = Point("answered", Moment.ANSWERED, Place.TRANSACTIONS, 5, "")


class Undelivered(TransactionStage):
    """The client has the response to EndTxn, and no marker has left. `strike` then does something
    to a partition. The next coordinator must complete the transaction."""

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        self.arm(ANSWERED, lambda log: None)
        await self.run_first()
        coordinator = self.leader(self.logs.transactions)
        if (state := self.found(coordinator).state) != PREPARE_COMMIT:
            self.violate(f"the state is {state} before the markers")
        await self.strike(coordinator)
        if (state := self.found(coordinator).state) != PREPARE_COMMIT:
            self.violate(f"the state is {state} at the death of the coordinator")
        self.kill(coordinator, AWAY_US)
        await self.until(self._is_complete, "the next coordinator has completed the transaction")
        await self.end_stage()

    async def strike(self, coordinator: MemberNode) -> None:
        raise NotImplementedError

    async def end_stage(self) -> None:
        await self.run_second()

    def _is_complete(self) -> bool:
        assert self.logs is not None
        leader = self.leader_of(self.logs.transactions)
        return leader >= 0 and self.found(self.nodes[leader]).state == COMPLETE_COMMIT


class NewerEpoch(Undelivered):
    """The second partition has a marker with a newer epoch of the producer, as after a loss of
    decided transactions. The leader of the two others cannot be reached by the first
    coordinator."""

    async def strike(self, coordinator: MemberNode) -> None:
        assert self.logs is not None
        self.codes: dict[str, list[ErrorCode]] = {}
        found = self.found(coordinator)
        self.decided = found.producer_id, found.epoch
        log = self.logs.data[1]
        await self._write_marker(log, coordinator)
        self.cut(coordinator, self.leader(self.logs.data[0]), AWAY_US)
        for node in self.nodes.values():
            self._watch(node)
        self.release_markers()
        await self.until(lambda: self.codes.get(log), "the second partition has its marker")
        if written := [
            name for name in (self.logs.data[0], self.logs.data[2]) if name in self.codes
        ]:
            self.violate(f"{written} have markers before the death of the coordinator")

    async def _write_marker(self, log: str, coordinator: MemberNode) -> None:
        """Write a marker as the coordinator does, but with the newer epoch."""
        assert self.logs is not None
        topic, _, index = log.rpartition("-")
        producer_id, epoch = self.decided
        topics = [WritableTxnMarkerTopic(topic, [int(index)])]
        leader_epoch = self.rules.metadata.partitions[self.logs.transactions].leader_epoch
        marker = WritableTxnMarker(producer_id, epoch + 1, True, topics, leader_epoch, 2)
        client = RawClient(self, "forger", markers_client_id(coordinator.broker_id))
        response = await client.call(
            self.leader(log).broker_id,
            WriteTxnMarkersRequest([marker]),
            WriteTxnMarkersResponse,
            2,
        )
        (code,) = [
            partition.error_code
            for row in response.markers
            for topic in row.topics
            for partition in topic.partitions
        ]
        assert not code, ErrorCode(code)
        await client.end()

    def _watch(self, node: MemberNode) -> None:
        """Note the outcomes of the markers that a broker writes."""
        local = node.broker.services.local_markers
        write: Callable[..., None] = local._write

        def noted(work: Any, partition: Any, settled: Callable[[Any, ErrorCode], None]) -> None:
            def note(partition: Any, code: ErrorCode) -> None:
                self.codes.setdefault(str(partition), []).append(code)
                settled(partition, code)

            write(work, partition, note)

        local._write = noted  # type: ignore

    def judge(self, logs: Logs) -> None:
        assert self.logs is not None
        self.check_outcome(logs, committed=True)
        log = self.logs.data[1]
        # The codes of the markers: from the first coordinator, from the second one, and of the
        # second transaction.
        refused = ErrorCode.INVALID_PRODUCER_EPOCH
        if self.codes[log] != [refused, refused, ErrorCode.NONE]:
            self.violate(f"{log} has responded {self.codes[log]}")
        # The checks report that the coordinator's marker is missing and that the newer one has no
        # decision.
        producer_id, epoch = self.decided
        for expected in (
            f"I5 {log}: ({producer_id}, {epoch}) has COMPLETE, but no COMMIT marker here",
            f"I6 {log}: COMMIT of ({producer_id}, {epoch + 1}) at offset 1 has no decision",
        ):
            known = [violation for violation in self.violations if violation.endswith(expected)]
            if len(known) != 1:
                self.violate(f"not found: {expected}")
            self.violations = [violation for violation in self.violations if violation not in known]


def test_cj_a_partition_with_a_newer_epoch_delays_no_other_marker_over_a_fail_over() -> None:
    play(NewerEpoch)


class DeletedTopic(Undelivered):
    """The topic of the third partition is deleted before its marker, and possibly created again."""

    is_recreated = False

    def _placement(self) -> tuple[list[TopicPartition], str]:
        (first, second, _), group = super()._placement()
        leader = self.leader_of(str(first))
        third = next(p for p in self.output_partitions if self.leader_of(str(p)) == leader)
        return [first, second, third], group

    async def strike(self, coordinator: MemberNode) -> None:
        deleted = self.places.pop()
        topic = deleted.topic
        self.recreated.add(topic)
        self._forget(str(deleted))
        await self._operate(lambda admin: admin.delete_topics([topic]))
        if self.is_recreated:
            await self._create(topic)
        await self.until(lambda: self._is_known(topic) is self.is_recreated, "known everywhere")

    def _forget(self, log: str) -> None:
        """Let no reader expect the record that is deleted."""
        events = self.recorder.history.events
        (operation,) = self.recorder.history.operations
        kept = tuple(step for step in operation.sends if step.key != log)
        events[events.index(operation)] = replace(operation, steps=kept)

    def _is_known(self, topic: str) -> bool | None:
        """Return True if all brokers have the topic, False if none has it."""
        images = [node.broker.metadata.image for node in self.nodes.values()]
        known = {topic in image.topics for image in images}
        return known.pop() if len(known) == 1 else None

    async def end_stage(self) -> None:
        if not self.is_recreated:
            await self._create("out")
        await self.run_second()

    async def _create(self, topic: str) -> None:
        new = NewTopic(topic, self.options.topic_partitions, len(self.nodes))
        await self._operate(lambda admin: admin.create_topics([new]))

    async def _operate(self, work: Callable[[Admin], Any]) -> None:
        async def operate() -> None:
            async with Admin(self.bootstrap) as admin:
                await work(admin)

        await self.new_process("operator").run(operate())

    def judge(self, logs: Logs) -> None:
        self.check_outcome(logs, committed=True)


@pytest.mark.parametrize("is_recreated", [False, True], ids=["deleted", "recreated"])
def test_ck_the_next_coordinator_completes_a_transaction_with_a_deleted_partition(
    is_recreated: bool,
) -> None:
    class Stage(DeletedTopic):
        pass

    Stage.is_recreated = is_recreated
    play(Stage)
