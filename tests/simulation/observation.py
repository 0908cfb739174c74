"""Rare states, as a broker's memory at its death, its log events and its files show them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from oncelog_protocol.internal.transaction_log import TransactionState
from oncelog_server.broker import Broker
from oncelog_server.group.classic.states import GroupState
from tests.simulation.checking.decisions import PREPARES
from tests.simulation.checking.internal_records import EMPTY, read_transitions
from tests.simulation.checking.logs import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    PartitionLog,
    TopicPartition,
)

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld


def observe_death(world: BaseWorld, broker: Broker) -> None:
    """Note the unfinished work of a broker that was just killed."""
    met = world.sometimes.met
    for _, shard in broker.transactions.runtime.shards():
        for live in shard.transactions.values():
            state = live.metadata.state
            if live.pending is not None:
                met(f"killed before {live.pending.state.name} was committed")
            if state is TransactionState.ONGOING:
                met("killed with a transaction open")
            elif live.metadata.is_prepared:
                met(f"killed in {state.name}")
                if 0 < len(live.markers_left) < len(live.metadata.partitions):
                    met("killed with some markers written")
                elif not live.markers_left:
                    met("killed between the last marker and COMPLETE")
            if live.waiting:
                met("killed while EndTxn waits")
    for partition in broker.partitions:
        if partition.last_stable_offset < partition.high_watermark:
            met("killed with the last stable offset held back")
        if partition.high_watermark < partition.log_end_offset:
            met("killed with records that are not committed")
        if partition._log.segments.deleted:
            met("killed with deleted segments still on disk")
        if partition.commit_waiters:
            met("killed while a producer waits for the disk")
        if len(partition.guards):
            met("killed during a verification")
    for _, group in broker.groups.runtime.shards():
        committed, pending = group.table.offsets.snapshot()
        if pending:
            met("killed with group offsets in a transaction")
        if committed:
            met("killed with group offsets committed")
        for member in group.table.groups.values():
            met(f"killed with a group {GroupState(member.state_name).name}")


def observe_events(world: BaseWorld) -> None:
    """Note the broker's log events."""
    met = world.sometimes.met
    for _, _, event in world.capture.events:
        match event["event"]:
            case "log recovered":
                if event.get("cut_bytes"):
                    met("torn end cut off")
                if event.get("valid_batches_followed"):
                    met("torn in the middle of what was not synced")
                for rebuilt in event.get("rebuilt") or ():
                    met(f"rebuilt {rebuilt.rpartition('.')[2]}")
            case "transaction aborted" | "producer refused":
                met(f"{event['event']}: {event.get('cause')}")
            case "connection closed":
                met(f"connection closed: {str(event.get('reason'))[:24]}")
            case "disk refused":
                met(f"disk refused {event.get('operation')}")
                if event.get("files") == "checkpoints":
                    met("checkpoints refused")
                met("log compaction refused by the disk", event.get("work") == "compaction")
            case "broker started":
                met("clean start" if event.get("clean") else "start after a crash")
            case "broker stopped":
                met("clean stop" if event.get("clean") else "stop that is not clean")
            case other:
                met(str(other))


def observe_files(world: BaseWorld, logs: Mapping[TopicPartition, PartitionLog]) -> None:
    """Note the contents of the logs."""
    met = world.sometimes.met
    for (topic, _), log in sorted(logs.items()):
        if log.start > 0 and not log.is_internal:
            met("segments deleted from the front")
        if topic == TRANSACTION_STATE:
            _observe_epochs(world, log)
        bases = sorted(log.logs)
        met("log of many segments", len(bases) > 4)
        for transaction in log.whole.transactions:
            if transaction.last is None or transaction.committed is None:
                continue
            end = "committed" if transaction.committed else "aborted"
            crossed = sum(transaction.first < base <= transaction.last for base in bases)
            met(f"{end} transaction over several segments", crossed)
            met(f"{end} group offsets", topic == CONSUMER_OFFSETS)
        writers = {batch.producer_id for batch in log.batches if not batch.is_control}
        for batch in log.batches:
            marker = batch.marker
            if marker is not None:
                met("marker of a later coordinator", marker[1] > 0)
                met("marker without data", batch.producer_id not in writers)
            met("producer epoch above ten", batch.epoch > 10)
    _observe_overlaps(world, logs)


def _observe_epochs(world: BaseWorld, log: PartitionLog) -> None:
    met = world.sometimes.met
    for read_transition in read_transitions(log):
        if (
            read_transition.state in PREPARES
            and read_transition.next_producer_id >= 0
            and read_transition.next_epoch < 0
        ):
            met("producer id rotated at a decision")
        if (
            read_transition.state == EMPTY
            and read_transition.previous_producer_id >= 0
            and read_transition.epoch == 0
        ):
            met("producer id rotated by InitProducerId")


def _observe_overlaps(world: BaseWorld, logs: Mapping[TopicPartition, PartitionLog]) -> None:
    for log in logs.values():
        ended = sorted(
            (transaction for transaction in log.whole.transactions if transaction.last is not None),
            key=lambda batch: batch.first,
        )
        for before, after in pairwise(ended):
            if before.last is None or after.first > before.last:
                continue
            world.sometimes.met("two transactions open in one partition")
            if before.committed != after.committed:
                world.sometimes.met("committed and aborted transaction interleaved")
