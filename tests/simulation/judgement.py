"""The final checks of a simulated world (a broker, its clients and its faults): all work must end,
and the final state must be correct."""

from __future__ import annotations

import asyncio

from oncelog_server.broker import Broker
from tests.simulation.checking.live import LiveBroker, check_live
from tests.simulation.disk_logs import logs_on
from tests.simulation.final_checks import (
    check_clients,
    check_exceptions,
    check_logs,
    check_size,
    read_everything,
)
from tests.simulation.full_at import Healing
from tests.simulation.live_view import broker_view
from tests.simulation.observation import observe_events
from tests.simulation.undecided import undecided
from tests.simulation.workloads.table import KEYS
from tests.simulation.world import World


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
        await read_everything(world)
        await self._until_disconnected()
        # A delayed frame may have begun another transaction since the first wait.
        await self._until_decided()
        before = _view(world.node.broker)
        self._compare_memory(before)
        check_exceptions(world)
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
        logs = logs_on(world.node.disk, world.node.broker)
        check_logs(world, logs)
        check_clients(world, logs)
        self._check_table()
        check_size(world)
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
        timeout_us = world.options.transaction_timeout_ms * 1000 + 10_000_000
        deadline_us = world.loop.now_us + timeout_us
        while True:
            open_ones = list(undecided(world.node.broker, lossy=world.options.is_lossy))
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

    # Checks of the broker.

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

    def _check_table(self) -> None:
        """Check the contents of the compacted topic (L11)."""
        world = self._world
        if "table" not in world.options.workloads or world.options.is_lossy:
            return
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


def _view(broker: Broker) -> LiveBroker:
    return broker_view(broker.partitions, broker.transactions, broker.groups)
