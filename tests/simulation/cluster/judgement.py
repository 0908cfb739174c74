"""The final checks of a simulated cluster: all work must end, all replicas must agree, and nothing
may be lost or duplicated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from tests.simulation.checking.logs import PartitionLog, TopicPartition
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.disk_logs import logs_on
from tests.simulation.final_checks import (
    check_clients,
    check_exceptions,
    check_logs,
    read_everything,
)
from tests.simulation.inspection import inspect_running
from tests.simulation.observation import observe_events
from tests.simulation.undecided import undecided

# Time for all brokers to be in all ISRs again. A follower waits 30 s for the response to a Fetch if
# its connection to the leader has vanished (replica.socket.timeout.ms), and requests on other links
# between brokers wait as long.
TIMEOUT_US: Final = 75_000_000


class ClusterJudgement:
    """The final checks. Call `pass_on` after `world.live`."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world

    async def pass_on(self) -> dict[TopicPartition, PartitionLog]:
        """Make the checks. Return the logs of all partitions, from the disks of their leaders."""
        world = self._world
        await world.healed()
        await self._until(self._not_in_sync, "in sync")
        await self._until(self._undecided, "decided")
        await read_everything(world)
        await self._until(self._undecided, "decided")
        for node in world.up():
            inspect_running(world, node)
        world.rules.check_all()
        self.compare_replicas()
        check_exceptions(world)
        observe_events(world)
        logs = self._leaders_logs()
        await self._stop()
        check_logs(world, logs)
        check_clients(world, logs)
        return logs

    # --- waiting until all work has ended

    async def _until(self, left: Callable[[], Iterator[str]], what: str) -> None:
        """Wait until `left` yields nothing. If it still yields something at the deadline, this is a
        violation."""
        world = self._world
        deadline_us = world.loop.now_us + TIMEOUT_US
        while found := list(left()):
            if world.loop.now_us > deadline_us:
                world.violate(f"not {what} at the deadline: {'; '.join(found)}")
                return
            await asyncio.sleep(0.05)

    def _not_in_sync(self) -> Iterator[str]:
        world = self._world
        if len(world.rules.metadata.broker_epochs) < len(world.nodes):
            yield f"only {world.rules.metadata.broker_epochs} are registered"
        for name, record in world.rules.metadata.partitions.items():
            if record.leader < 0 or len(record.isr) < len(record.replicas) or record.elr:
                yield f"{name}: {record}"

    def _undecided(self) -> Iterator[str]:
        for node in self._world.nodes.values():
            for left in undecided(node.broker, lossy=False):
                yield f"{node.host}: {left}"

    # --- replicas

    def compare_replicas(self) -> None:
        """Check that all replicas have the same batches (I16)."""
        world = self._world
        for name, record in world.rules.metadata.partitions.items():
            for wrong in world.rules.differences(name, record.replicas):
                world.violate(f"I16: {wrong}")

    def _leaders_logs(self) -> dict[TopicPartition, PartitionLog]:
        """Return the logs of all partitions, each from the disk of its leader."""
        world = self._world
        found: dict[TopicPartition, PartitionLog] = {}
        logs = {id: logs_on(node.disk, node.broker) for id, node in world.nodes.items()}
        for name, record in world.rules.metadata.partitions.items():
            topic, _, index = name.rpartition("-")
            key = topic, int(index)
            if record.leader in logs and key in logs[record.leader]:
                found[key] = logs[record.leader][key]
        return found

    # --- the end

    async def _stop(self) -> None:
        """Stop all brokers cleanly, and check that no task and no timer is left (I19)."""
        world = self._world
        for node in world.nodes.values():
            process = node.process
            assert process is not None
            await node.stop()
            await world.check_left(process)
            node.on_death = lambda broker: None
            node.kill()
