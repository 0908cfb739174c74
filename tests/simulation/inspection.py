"""Checks during the run: the broker's memory against its files, while transactions are open,
offsets are pending and flushes are in progress.

An inspection only reads. It calls nothing that changes the broker or takes time, so it never
repairs a defect that it should find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tests.simulation.checking.internal_records import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    STATE_NAMES,
)
from tests.simulation.checking.invariants import check_files
from tests.simulation.checking.live import LiveBroker, LivePartition, check_live
from tests.simulation.checking.logs import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    PartitionLog,
    TopicPartition,
)
from tests.simulation.checking.violations import Violation
from tests.simulation.disk_logs import logs_on
from tests.simulation.live_view import offset_views, partition_view, transaction_views

if TYPE_CHECKING:
    from tests.simulation.base_world import BaseWorld
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.world import World

EVERY_US: Final = 1_000_000
AT_REST: Final = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)


def inspect_start(world: World) -> None:
    """Check a broker that has just started. Its loaded state must match its files, and the files
    must match each other and the responses that clients have got."""
    logs = _opened_logs(world.node)
    _inspect_memory(world, world.node, logs, "after a start")
    if world.node.broker.partitions.offline():
        return  # with an offline log, the other logs need not agree with each other
    lossy = world.options.is_lossy
    recreated = frozenset(log for log in logs if log[0] in world.recreated)
    found = check_files(logs, lossy=lossy, recreated=recreated)
    if not lossy:
        found += world.promises.check(logs)
    for violation in found:
        # I14 is about `.txnindex` files. The next read rebuilds a damaged one.
        if violation.invariant != "I14":
            world.violate(f"after a start: {violation}")


def inspect_loaded(world: BaseWorld, node: BrokerNode) -> None:
    """Check a broker after one or more of its shards have loaded, perhaps long after its start."""
    world.sometimes.met("a shard has loaded after the start")
    _inspect_memory(world, node, _opened_logs(node), "after a start")


def inspect_running(world: BaseWorld, node: BrokerNode) -> None:
    """Check a broker between two of its events."""
    _inspect_memory(world, node, _opened_logs(node), "on the way")


def _opened_logs(node: BrokerNode) -> dict[TopicPartition, PartitionLog]:
    """Return the logs that the broker could open. It has not repaired the other logs."""
    opened = {partition.topic_partition for partition in node.broker.partitions}
    return {key: log for key, log in logs_on(node.disk, node.broker).items() if key in opened}


def _inspect_memory(
    world: BaseWorld, node: BrokerNode, logs: dict[TopicPartition, PartitionLog], when: str
) -> None:
    broker = node.broker
    failed = {
        partition.topic_partition
        for partition in broker.partitions
        if partition.failure is not None
    }
    partitions: dict[TopicPartition, LivePartition] = {
        partition.topic_partition: partition_view(partition, reads_files=False)
        for partition in broker.partitions
        if partition.topic_partition not in failed
    }
    found = check_live(logs, LiveBroker(partitions))
    # If only a part of an abort was written, the log has failed, and the next start applies the
    # rest of the abort. Until then readers wait: the last stable offset may be lower than the files
    # allow, but not higher.
    for partition in broker.partitions:
        log = logs.get(partition.topic_partition)
        if log is None or partition.topic_partition not in failed:
            continue
        if partition.last_stable_offset > log.stable_end():
            found.append(Violation("I2", log.name, "the LSO of a failed log is too high"))
    # A coordinator that could not load, or that has resigned, keeps no records in memory.
    served = {(TRANSACTION_STATE, index) for index, _ in broker.transactions.runtime.shards()} | {
        (CONSUMER_OFFSETS, index) for index, _ in broker.groups.runtime.shards()
    }
    served -= failed
    # A stopping broker has resigned, so later commits do not reach its memory.
    served -= {
        partition.topic_partition for partition in broker.partitions if not partition.is_leader
    }
    offsets, pending = offset_views(
        shard
        for index, shard in broker.groups.runtime.shards()
        if (CONSUMER_OFFSETS, index) in served
    )
    transactions = {
        (index, name): view
        for (index, name), view in transaction_views(broker.transactions).items()
        if (TRANSACTION_STATE, index) in served
    }
    coordinators = LiveBroker({}, transactions, offsets, pending)
    found += check_live({key: log for key, log in logs.items() if key in served}, coordinators)
    for violation in found:
        world.violate(f"{when}: {violation} (on {node.host})")
    _observe(world, partitions, coordinators, when)


def _observe(
    world: BaseWorld,
    partitions: Mapping[TopicPartition, LivePartition],
    coordinators: LiveBroker,
    when: str,
) -> None:
    """Note the undecided states of this moment. Inspections without any of them would prove
    nothing."""
    met = world.sometimes.met
    for transaction in (coordinators.transactions or {}).values():
        if transaction.state not in AT_REST:
            met(f"{when}: a transaction is {STATE_NAMES[transaction.state]}")
    for partition in partitions.values():
        if partition.last_stable_offset < partition.high_watermark:
            met(f"{when}: the last stable offset is held back")
        if partition.high_watermark < partition.log_end_offset:
            met(f"{when}: records are not committed")
    if coordinators.pending_offsets:
        met(f"{when}: group offsets are in a transaction")
