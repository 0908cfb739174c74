"""The final checks that all simulated worlds share: a last reader, the history of the clients, the
logs, and unexpected exceptions. Each check adds its violations to the world."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_client import Consumer
from tests.simulation.base_world import BaseWorld
from tests.simulation.checking.anomalies import check_history
from tests.simulation.checking.copies import check_copies
from tests.simulation.checking.history import Outcome, Poll
from tests.simulation.checking.invariants import check_files, check_settled
from tests.simulation.checking.logs import PartitionLog, TopicPartition
from tests.simulation.checking.promises import check_reads
from tests.simulation.observation import observe_files
from tests.simulation.options import LEAST_TRANSACTIONS
from tests.simulation.process import CURRENT
from tests.simulation.workloads.copy import GROUP
from tests.simulation.workloads.reading import by_key

Logs = Mapping[TopicPartition, PartitionLog]


async def read_everything(world: BaseWorld) -> None:
    """Let a last reader read all committed records."""
    process = world.new_process("auditor")
    await process.run(_read(world))
    process.die()


async def _read(world: BaseWorld) -> None:
    me = CURRENT.get()
    assert me is not None
    partitions = [*world.shared_partitions, *world.input_partitions, *world.output_partitions]
    consumer = Consumer(
        world.bootstrap,
        client_id="auditor",
        group_id=GROUP,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    await consumer.assign(partitions)
    world.recorder.assigned(me, map(str, partitions), from_start=True)
    await consumer.seek_to_beginning(*partitions)
    ends = await consumer.end_offsets(partitions)
    deadline_us = world.loop.now_us + 20_000_000
    while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
        if world.loop.now_us > deadline_us:
            world.violate("the last reader does not reach the end")
            break
        attempt = world.recorder.begin(me)
        attempt.poll(by_key(await consumer.poll(timeout_ms=200)))
        attempt.end(Outcome.OK)
    world.recorder.history.complete = set(map(str, partitions))
    await _note_offsets(world, consumer)
    await consumer.close()


async def _note_offsets(world: BaseWorld, consumer: Consumer) -> None:
    if "copy" not in world.options.workloads or world.options.is_lossy:
        return
    committed = await consumer.committed(*world.input_partitions)
    world.recorder.history.final_offsets = {
        (GROUP, str(offset)): found.offset
        for offset, found in committed.items()
        if found is not None
    }


def check_logs(world: BaseWorld, logs: Logs) -> None:
    """Check the files of all partitions, against each other and against responses."""
    lossy = world.options.is_lossy
    recreated = frozenset(log for log in logs if log[0] in world.recreated)
    for violation in check_files(logs, lossy=lossy, recreated=recreated):
        world.violate(str(violation))
    observe_files(world, logs)
    if lossy:
        # After a power loss, some partitions may lack a marker, or the coordinator may lack a
        # transaction. An operator must find and abort these transactions (KIP-664).
        return
    for violation in (*check_settled(logs), *world.promises.check(logs)):
        world.violate(str(violation))
    reads: dict[tuple[str, int], list[tuple[int, bytes | None]]] = {}
    for operation in world.recorder.history.operations:
        for step in operation.steps:
            if isinstance(step, Poll):
                for key, records in step.records.items():
                    topic, _, index = key.rpartition("-")
                    found = reads.setdefault((topic, int(index)), [])
                    found += [(offset, b"%d" % value) for offset, value in records]
    for violation in check_reads(reads, logs):
        world.violate(str(violation))


def check_clients(world: BaseWorld, logs: Logs) -> None:
    """Check the history of the clients."""
    if world.options.is_lossy:
        return
    for anomaly in check_history(world.recorder.history):
        if anomaly.allowed:
            world.sometimes.met(f"allowed {anomaly.name}")
        else:
            world.violate(str(anomaly))
    if world.amounts:
        _check_money(world)
    if "copy" in world.options.workloads:
        _check_copies(world, logs)


def _check_copies(world: BaseWorld, logs: Logs) -> None:
    """Check that each input record below the group's offset has one committed copy, and that no
    other record has a copy (I13)."""
    inputs = {
        input_partition.partition: [
            record.offset for record in logs[input_partition].committed_records()
        ]
        for input_partition in world.input_partitions
    }
    outputs = [
        world.copied_from[int(record.value or b"-1")]
        for output_partition in world.output_partitions
        for record in logs[output_partition].committed_records()
    ]
    committed = {
        int(key.rpartition("-")[2]): offset
        for (_, key), offset in world.recorder.history.final_offsets.items()
    }
    for violation in check_copies(inputs, outputs, committed):
        world.violate(str(violation))


def _check_money(world: BaseWorld) -> None:
    """Check that the amounts of all visible records add up to 0. The two amounts of a transfer add
    up to 0, one of them alone does not."""
    seen = {
        value
        for operation in world.recorder.history.operations
        for _, _, value in operation.polled()
    }
    total = sum(amount for value, amount in world.amounts.items() if value in seen)
    if total:
        world.violate(f"the amounts of all visible records add up to {total}, not to 0")


def check_size(world: BaseWorld) -> None:
    if world.recorder.transactions < LEAST_TRANSACTIONS:
        world.violate(f"only {world.recorder.transactions} transactions were begun")


def check_exceptions(world: BaseWorld) -> None:
    """Check that no broker and no callback has raised an unexpected exception."""
    for defect in world.capture.defects:
        world.violate(f"an unexpected exception: {defect}")
    for failure in world.loop.failures:
        world.violate(f"the loop caught: {failure}")
