"""The final checks of a simulated world (a broker, its clients and its faults): all work must end,
and the final state must be correct."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from oncelog_client import Consumer
from oncelog_protocol.internal.transaction_log import TransactionState
from oncelog_server.broker import Broker
from tests.simulation.checking.anomalies import check_history
from tests.simulation.checking.copies import check_copies
from tests.simulation.checking.history import Outcome, Poll
from tests.simulation.checking.invariants import check_files, check_settled
from tests.simulation.checking.live import LiveBroker, check_live
from tests.simulation.checking.promises import check_reads
from tests.simulation.disk_logs import logs_on
from tests.simulation.full_at import Healing
from tests.simulation.live_view import broker_view
from tests.simulation.observation import observe_events, observe_files
from tests.simulation.options import LEAST_TRANSACTIONS
from tests.simulation.process import CURRENT
from tests.simulation.workloads.client import BROKER
from tests.simulation.workloads.copy import GROUP
from tests.simulation.workloads.reading import by_key
from tests.simulation.workloads.table import KEYS
from tests.simulation.world import World

AT_REST: Final = (
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)


class Judgement:
    """The final checks. Call `pass_on` after `world.live`. `pass_on` adds violations to
    `world.violations`."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def pass_on(self) -> None:
        world = self._world
        await world.healed()
        # The broker may have just started. Until its shards are loaded, it shows no open
        # transactions.
        await self._until_loaded()
        await self._until_space_is_used()
        # From here on the broker is always stopped before it is killed, so its death leaves no
        # unfinished work to observe.
        world.node.on_death = lambda broker: None
        await self._until_decided()
        await self._read_everything()
        await self._until_disconnected()
        # A delayed frame may have begun another transaction since the first wait.
        await self._until_decided()
        before = _view(world.node.broker)
        self._compare_memory(before)
        self._look_at_logs_of_events()
        observe_events(world)
        await self._stop()
        world.node.kill()
        if not await world.node.start():
            world.violate("the broker died at its last start")
            return
        await self._until_loaded()
        after = _view(world.node.broker)
        self._compare_memory(after)
        self._compare_restart(before, after)
        self._check_files()
        self._check_history()
        self._check_size()
        await self._stop()
        world.node.kill()

    # Waiting until all work has ended.

    async def _until_loaded(self) -> None:
        """Wait until the coordinators have loaded. A broker listens before that."""
        world = self._world
        deadline_us = world.loop.now_us + 10_000_000
        broker = world.node.broker
        while broker.transactions.runtime.is_loading or broker.groups.runtime.is_loading:
            if world.loop.now_us > deadline_us:
                world.violate("the coordinators did not load in time")
                return
            await asyncio.sleep(0.001)

    async def _until_space_is_used(self) -> None:
        """Check that the broker recovers without a restart some seconds after a full disk has space
        again."""
        world = self._world
        if not world.inflicted["full"] + world.inflicted["full-at"]:
            return
        await Healing(world).watch()

    async def _until_decided(self) -> None:
        """Wait until no transaction is open and readers can read everything (I8)."""
        world = self._world
        patience_us = world.options.transaction_timeout_ms * 1000 + 10_000_000
        deadline_us = world.loop.now_us + patience_us
        while True:
            open_ones = list(_undecided(world.node.broker, lossy=world.options.is_lossy))
            if not open_ones:
                return
            if world.loop.now_us > deadline_us:
                world.violate(f"still undecided at the deadline: {'; '.join(open_ones)}")
                return
            await asyncio.sleep(0.05)

    async def _until_disconnected(self) -> None:
        """Wait until all connections are closed, at the latest by the idle timeout (I19)."""
        world = self._world
        deadline_us = world.loop.now_us + 30_000_000
        while connections := len(world.node.broker._listener.connections):
            if world.loop.now_us > deadline_us:
                world.violate(f"{connections} connections are left")
                return
            await asyncio.sleep(0.2)

    async def _stop(self) -> None:
        """Stop cleanly, and check that no task and no timer is left (I19)."""
        world = self._world
        process = world.node.process
        assert process is not None
        await world.node.stop()
        await world.check_left(process)

    # Reading.

    async def _read_everything(self) -> None:
        world = self._world
        process = world.new_process("auditor")
        await process.run(self._read())
        process.die()

    async def _read(self) -> None:
        world = self._world
        me = CURRENT.get()
        assert me is not None
        partitions = [
            *world.shared_partitions,
            *world.input_partitions,
            *world.output_partitions,
        ]
        consumer = Consumer(
            BROKER,
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
        while any(
            [await consumer.position(partition) < ends[partition] for partition in partitions]
        ):
            if world.loop.now_us > deadline_us:
                world.violate("the last reader does not reach the end")
                break
            attempt = world.recorder.begin(me)
            attempt.poll(by_key(await consumer.poll(timeout_ms=200)))
            attempt.end(Outcome.OK)
        world.recorder.history.complete = set(map(str, partitions))
        await self._note_offsets(consumer)
        await consumer.close()

    async def _note_offsets(self, consumer: Consumer) -> None:
        world = self._world
        if "copy" not in world.options.workloads or world.options.is_lossy:
            return
        committed = await consumer.committed(*world.input_partitions)
        world.recorder.history.final_offsets = {
            (GROUP, str(offset)): found.offset
            for offset, found in committed.items()
            if found is not None
        }

    # Checks.

    def _compare_memory(self, live: LiveBroker) -> None:
        world = self._world
        logs = logs_on(world.node.disk, world.node.broker)
        for violation in check_live(logs, live, settled=not world.options.is_lossy):
            world.violate(str(violation))

    def _compare_restart(self, before: LiveBroker, after: LiveBroker) -> None:
        """Check that the replayed state equals the state before the restart (I12, I15)."""
        world = self._world
        for name, was in before.partitions.items():
            now = after.partitions.get(name)
            if now != was:
                world.violate(f"after a restart {name} is {now}, was {was}")
        for what in ("transactions", "group_offsets", "pending_offsets"):
            if getattr(before, what) != getattr(after, what):
                world.violate(
                    f"after a restart {what} are {getattr(after, what)}, "
                    f"were {getattr(before, what)}"
                )

    def _check_files(self) -> None:
        world = self._world
        logs = logs_on(world.node.disk, world.node.broker)
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

    def _check_size(self) -> None:
        world = self._world
        if world.recorder.transactions < LEAST_TRANSACTIONS:
            world.violate(f"only {world.recorder.transactions} transactions were begun")

    def _check_history(self) -> None:
        world = self._world
        if world.options.is_lossy:
            return
        for anomaly in check_history(world.recorder.history):
            if anomaly.allowed:
                world.sometimes.met(f"allowed {anomaly.name}")
            else:
                world.violate(str(anomaly))
        if world.amounts:
            self._check_money()
        if "copy" in world.options.workloads:
            self._check_copies()
        if "table" in world.options.workloads:
            self._check_table()

    def _check_table(self) -> None:
        """Check the contents of the compacted topic (L11)."""
        world = self._world
        logs = logs_on(world.node.disk, world.node.broker)
        for index in range(world.options.topic_partitions):
            table = [
                (record.offset, (record.key or b"").decode(), int(record.value))
                if record.value is not None
                else (record.offset, (record.key or b"").decode(), None)
                for record in logs["table", index].committed_records()
            ]
            keys = {f"k{key}" for key in range(index, KEYS, world.options.topic_partitions)}
            for violation in world.ledger.violations(table, keys):
                world.violate(violation)

    def _check_copies(self) -> None:
        """Check that each input record below the group's offset has one committed copy, and that no
        other record has a copy (I13)."""
        world = self._world
        logs = logs_on(world.node.disk, world.node.broker)
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

    def _check_money(self) -> None:
        """Check that the amounts of all visible records add up to 0. The amounts of each transfer
        do, but those of a part of a transfer do not."""
        world = self._world
        seen = {
            value
            for operation in world.recorder.history.operations
            for _, _, value in operation.polled()
        }
        total = sum(amount for value, amount in world.amounts.items() if value in seen)
        if total:
            world.violate(f"the amounts of all visible records add up to {total}, not to 0")

    def _look_at_logs_of_events(self) -> None:
        world = self._world
        for defect in world.capture.defects:
            world.violate(f"an unexpected exception: {defect}")
        for failure in world.loop.failures:
            world.violate(f"the loop caught: {failure}")


def _undecided(broker: Broker, *, lossy: bool) -> Iterator[str]:
    for offline, reason in broker.partitions.offline().items():
        yield f"{offline} is offline: {reason}"
    for partition in broker.partitions:
        stable, high = partition.last_stable_offset, partition.high_watermark
        end = partition.log_end_offset
        if not lossy and not stable == high == end:
            yield f"{partition.topic_partition}: LSO {stable}, HW {high}, end {end}"
    for _, shard in broker.transactions.runtime.shards():
        for name, live in shard.transactions.items():
            state = live.metadata.state
            if live.pending is not None or state not in AT_REST:
                yield f"{name} is {state.name}, pending {live.pending}"


def _view(broker: Broker) -> LiveBroker:
    return broker_view(broker.partitions, broker.transactions, broker.groups)
