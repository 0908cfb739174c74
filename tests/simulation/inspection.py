"""What holds at every moment, not only at rest: the broker's memory beside its files while
transactions are open, offsets are pending and flushes are under way.

Nothing is asked of the broker that could change it or let time go by, so that an inspection never
puts right what it should find.
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
    from tests.simulation.world import World

EVERY_US: Final = 1_000_000
AT_REST: Final = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)


def inspect_start(world: World) -> None:
    """The broker has just come up: what it has loaded is what its files say, and they agree with
    each other and with the responses that clients got."""
    logs = _opened_logs(world)
    _inspect_memory(world, logs, "after a start")
    if world.node.broker.partitions.offline():
        return  # what the others say need not agree with each other
    lossy = world.options.is_lossy
    recreated = frozenset(log for log in logs if log[0] in world.recreated)
    found = check_files(logs, lossy=lossy, recreated=recreated)
    if not lossy:
        found += world.promises.check(logs)
    for violation in found:
        # An index that a crash has torn is computed again at the next read.
        if violation.invariant != "I14":
            world.violate(f"after a start: {violation}")


def inspect_loaded(world: World) -> None:
    """Shards have loaded since the last turn, as some do when the broker is up already."""
    world.sometimes.met("a shard has loaded after the start")
    _inspect_memory(world, _opened_logs(world), "after a start")


def inspect_running(world: World) -> None:
    """Between two events of the broker."""
    _inspect_memory(world, _opened_logs(world), "on the way")


def _opened_logs(world: World) -> dict[TopicPartition, PartitionLog]:
    """Without those that the broker could not open, and so has not repaired."""
    broker = world.node.broker
    opened = {partition.topic_partition for partition in broker.partitions}
    return {key: log for key, log in logs_on(world.node.disk, broker).items() if key in opened}


def _inspect_memory(world: World, logs: dict[TopicPartition, PartitionLog], when: str) -> None:
    broker = world.node.broker
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
    # A log that could not write all of an abort calls itself failed. What it has not applied, its
    # next start will; until then its readers wait, and may not pass.
    for partition in broker.partitions:
        log = logs.get(partition.topic_partition)
        if log is None or partition.topic_partition not in failed:
            continue
        if partition.last_stable_offset > log.stable_end():
            found.append(Violation("I2", log.name, "the LSO of a failed log is too high"))
    # Records of coordinators that could not be loaded, or were given up, are in no memory.
    served = {(TRANSACTION_STATE, index) for index, _ in broker.transactions.runtime.shards()} | {
        (CONSUMER_OFFSETS, index) for index, _ in broker.groups.runtime.shards()
    }
    served -= failed
    # Nor in that of a stopping broker: it has resigned, and no callback hears of later commits.
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
        world.violate(f"{when}: {violation}")
    _observe(world, partitions, coordinators, when)


def _observe(
    world: World,
    partitions: Mapping[TopicPartition, LivePartition],
    coordinators: LiveBroker,
    when: str,
) -> None:
    """An inspection that never meets anything undecided would prove nothing."""
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
