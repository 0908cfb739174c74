"""The faults of a cluster: of its brokers, of the network between hosts, and of its etcd."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from oncelog_server.partition.partition import Partition
from tests.simulation.client_faults import ClientFaults
from tests.simulation.cluster.member_node import MemberNode, host_of
from tests.simulation.cuts import Cut, both_ways
from tests.simulation.disk import Loss, Trap
from tests.simulation.etcd.faults import Fault as RequestFault
from tests.simulation.etcd.member import SimMember
from tests.simulation.fault import Fault
from tests.simulation.process import PAUSED, Killed

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld

HOUR_MS: Final = 3_600_000
TEN_MINUTES_MS: Final = 600_000
TXN: Final = "/v3/kv/txn"
# A key of another application. A write of it raises etcd's revision.
FOREIGN: Final = b"/other/key"


# The number of checks for uncommitted records, one in each millisecond.
LOOKS: Final = 1_000
TRAP_MATCHES: Final = ("", "append", "truncate", "truncate", "rename", "sync", "unlink",
                       "leader-epoch", "recovery-point", "txnindex", "snapshot",
                       "__transaction_state", "__consumer_offsets")  # fmt: skip


def _is_uncommitted(partition: Partition) -> bool:
    return partition.is_leader and not partition.is_committed


class ClusterFaults(ClientFaults):
    """The faults of a cluster. For a kill, `for_us` is the time until the next start."""

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._world = world

    # --- processes of brokers

    def _kill(self, fault: Fault, rng: Random) -> bool:
        return self._kill_some(fault, rng, 1)

    def _kill_two(self, fault: Fault, rng: Random) -> bool:
        return self._kill_some(fault, rng, 2)

    def _kill_all(self, fault: Fault, rng: Random) -> bool:
        return self._kill_some(fault, rng, len(self._world.nodes))

    def _kill_some(self, fault: Fault, rng: Random, count: int) -> bool:
        nodes = self._some_nodes(rng, count)
        for node in nodes:
            node.kill()
            self._world.restart_after(node, rng.randint(1_000, fault.for_us))
        return bool(nodes)

    def _stop(self, fault: Fault, rng: Random) -> bool:
        nodes = self._some_nodes(rng, 1)
        for node in nodes:
            self._world.restart_after(node, fault.for_us, stop=True)
        return bool(nodes)

    def _pause(self, fault: Fault, rng: Random) -> bool:
        return self._pause_some(fault, rng, 1)

    def _pause_two(self, fault: Fault, rng: Random) -> bool:
        return self._pause_some(fault, rng, 2)

    def _pause_some(self, fault: Fault, rng: Random, count: int) -> bool:
        nodes = [node for node in self._some_nodes(rng, count) if node.pause()]
        for node in nodes:
            self._world.after(fault.for_us, node.resume)
        return bool(nodes)

    def _some_nodes(self, rng: Random, count: int) -> list[MemberNode]:
        """Return up to `count` brokers that are up and have no fault of their process."""
        nodes = [
            node
            for node in self._world.up()
            if not node.is_restarting and node.process is not None and node.process.state != PAUSED
        ]
        return rng.sample(nodes, min(count, len(nodes)))

    def _flap(self, fault: Fault, rng: Random) -> bool:
        """Kill a broker several times, each time soon after its start."""
        nodes = self._some_nodes(rng, 1)
        for node in nodes:
            self._world.background(self._kill_again(node, rng))
        return bool(nodes)

    async def _kill_again(self, node: MemberNode, rng: Random) -> None:
        for _ in range(3):
            if self._world.is_healed:
                return
            if node.is_up and not node.is_restarting:
                node.kill()
                self._world.restart_after(node, rng.randint(1_000, 300_000))
            await asyncio.sleep(rng.random() * 2.0)

    def _roll(self, fault: Fault, rng: Random) -> None:
        """Restart all brokers, one after the other."""
        self._world.background(self._restart_all(rng))

    async def _restart_all(self, rng: Random) -> None:
        for node in self._world.nodes.values():
            if self._world.is_healed:
                return
            if node.is_up and not node.is_restarting:
                self._world.restart_after(node, 50_000, stop=True)
            await asyncio.sleep(rng.random() * 1.5)

    def _kill_inside(self, fault: Fault, rng: Random) -> bool:
        """Kill a broker inside of a change of its disk."""
        nodes = self._some_nodes(rng, 1)
        for node in nodes:
            node.disk.trap = Trap(
                rng.choice((1, 2, 5, 20, 60)),
                rng.choice(TRAP_MATCHES),
                partial(self._spring, node, fault),
                torn=rng.random() < 0.3,
            )
        return bool(nodes)

    def _power_inside(self, fault: Fault, rng: Random) -> bool:
        """Cut the power of a broker inside of a change of its disk."""
        nodes = self._some_nodes(rng, 1)
        for node in nodes:
            node.disk.trap = Trap(
                rng.choice((1, 2, 5, 20, 60)),
                rng.choice(TRAP_MATCHES),
                partial(self._spring_power, node, fault),
                torn=True,
            )
        return bool(nodes)

    def _spring_power(self, node: MemberNode, fault: Fault) -> None:
        world = self._world
        if self._may_lose_power(node):
            world.sometimes.met("power lost inside a change of the disk")
            # The power fails after this callback, because the callback runs in the middle of an
            # operation of the disk.
            world.loop.call_soon(self._take_power, node, context=world.context)
        self._spring(node, fault)

    def _spring(self, node: MemberNode, fault: Fault) -> None:
        self._world.sometimes.met("killed inside a change of the disk")
        assert node.process is not None
        node.process.die()
        # If the broker is starting, `restart_after` does nothing: the world repeats the start
        # anyway.
        self._world.restart_after(node, fault.for_us)
        raise Killed

    # --- a leader with records that are not committed

    def _kill_uncommitted(self, fault: Fault, rng: Random) -> None:
        def kill(node: MemberNode) -> None:
            node.kill()
            self._world.restart_after(node, fault.for_us)

        self._when_uncommitted(rng, kill)

    def _pause_uncommitted(self, fault: Fault, rng: Random) -> None:
        def pause(node: MemberNode) -> None:
            if node.pause():
                self._world.after(fault.for_us, node.resume)

        self._when_uncommitted(rng, pause)

    def _isolate_uncommitted(self, fault: Fault, rng: Random) -> None:
        """Cut a leader off from all hosts but some clients, which continue to send records."""
        names = [client.name for client in self._world.clients]
        others = {*map(host_of, self._world.ids), *self._world.etcd.hosts, *rng.sample(names, 1)}

        def isolate(node: MemberNode) -> None:
            self._cut(fault, both_ways([node.host], others - {node.host}))

        self._when_uncommitted(rng, isolate)

    def _when_uncommitted(self, rng: Random, act: Callable[[MemberNode], None]) -> None:
        """Act on a leader as soon as it has records that are not committed."""
        left = [LOOKS]

        def look() -> None:
            nodes = self._some_nodes(rng, len(self._world.nodes))
            for node in nodes:
                if any(_is_uncommitted(partition) for partition in node.broker.partitions):
                    self._world.sometimes.met("fault of a leader with uncommitted records")
                    act(node)
                    return
            left[0] -= 1
            if left[0] and not self._world.is_healed:
                self._world.after(1_000, look)

        look()

    # --- power

    def _power(self, fault: Fault, rng: Random) -> bool:
        """Cut the power of one broker, if all others have recovered from their power losses.
        Otherwise all brokers with a record could lose it."""
        nodes = [node for node in self._some_nodes(rng, 1) if self._may_lose_power(node)]
        return self._lose_power(fault, rng, nodes)

    def _may_lose_power(self, node: MemberNode) -> bool:
        others = [other for other in self._world.nodes.values() if other is not node]
        return self._world.options.flush_on_ack or all(map(self._has_recovered, others))

    def _power_two(self, fault: Fault, rng: Random) -> bool:
        return self._lose_power(fault, rng, self._some_nodes(rng, 2))

    def _power_all(self, fault: Fault, rng: Random) -> bool:
        return self._lose_power(fault, rng, self._some_nodes(rng, len(self._world.nodes)))

    def _lose_power(self, fault: Fault, rng: Random, nodes: list[MemberNode]) -> bool:
        for node in nodes:
            node.silence = both_ways([node.host], None) if rng.random() < 0.5 else []
            self._world.net.cuts.add(node.silence)
            node.kill_computer()
            self._take_power(node)
            self._world.restart_after(node, rng.randint(1_000, fault.for_us))
        return bool(nodes)

    def _take_power(self, node: MemberNode) -> None:
        options = self._world.options
        loss = Loss(ordered=options.loss_ordered, holes=options.loss_holes)
        node.lose_power(loss, self._world.rules.metadata.revision)

    def _has_recovered(self, node: MemberNode) -> bool:
        """Return True if the broker has been in the ISR of all its partitions since its last power
        loss."""
        return all(
            node.broker_id in record.isr and self._world.rules.is_sound(node.broker_id, record)
            for record in self._world.rules.metadata.partitions.values()
            if node.broker_id in record.replicas
        )

    # --- the network between hosts

    def _isolate(self, fault: Fault, rng: Random) -> None:
        """Cut one broker off from all hosts."""
        self._cut(fault, both_ways([host_of(rng.choice(self._world.ids))], None))

    def _pair(self, fault: Fault, rng: Random) -> None:
        """Cut the network between two brokers."""
        first, second = rng.sample(self._world.ids, 2)
        self._cut(fault, both_ways([host_of(first)], [host_of(second)]))

    def _minority(self, fault: Fault, rng: Random) -> None:
        """Cut a minority of the brokers, with some clients, off from all others."""
        ids = self._world.ids
        few = rng.sample(ids, (len(ids) - 1) // 2)
        clients = [client.name for client in self._world.clients if rng.random() < 0.5]
        inside = [*map(host_of, few), *clients]
        hosts = [*map(host_of, ids), *self._world.etcd.hosts]
        hosts += [client.name for client in self._world.clients]
        self._cut(fault, both_ways(inside, [host for host in hosts if host not in inside]))

    def _one_way(self, fault: Fault, rng: Random) -> None:
        """Let no byte of a broker arrive at another host, or at all of them."""
        source = host_of(rng.choice(self._world.ids))
        others = [*map(host_of, self._world.ids), *self._world.etcd.hosts]
        others.remove(source)
        target = rng.choice((None, frozenset([rng.choice(others)])))
        cut = Cut(frozenset([source]), target)
        self._cut(fault, [cut if rng.random() < 0.5 else Cut(cut.targets, cut.sources)])

    def _refuse(self, fault: Fault, rng: Random) -> None:
        """Let a broker that lives refuse connections from some hosts, or from all, as a firewall
        does. The present connections break."""
        target = host_of(rng.choice(self._world.ids))
        others = [host for host in map(host_of, self._world.ids) if host != target]
        sources = rng.choice((None, frozenset(others), frozenset([rng.choice(others)])))
        refusal = Cut(sources, frozenset([target]))
        net = self._world.net
        net.refusals.add([refusal])
        for link in net.open_links():
            if refusal.has(*link.hosts):
                net.reset(link)
        self._until(fault, lambda: net.refusals.remove([refusal]))

    def _etcd_only(self, fault: Fault, rng: Random) -> None:
        """Let a broker reach etcd and no other broker."""
        broker_id = rng.choice(self._world.ids)
        others = [host_of(id) for id in self._world.ids if id != broker_id]
        self._cut(fault, both_ways([host_of(broker_id)], others))

    def _peers_only(self, fault: Fault, rng: Random) -> None:
        """Let a broker reach the other brokers and not etcd."""
        broker = host_of(rng.choice(self._world.ids))
        self._cut(fault, both_ways([broker], self._world.etcd.hosts))

    def _cut(self, fault: Fault, cuts: Collection[Cut]) -> None:
        self._world.net.cuts.add(cuts)
        self._until(fault, lambda: self._world.net.cuts.remove(cuts))

    def _until(self, fault: Fault, end: Callable[[], None]) -> None:
        """End a fault at its time, unless the world has ended all faults before."""
        self._world.after(fault.for_us, lambda: None if self._world.is_healed else end())

    # --- etcd

    def _etcd_silent(self, fault: Fault, rng: Random) -> None:
        member = self._member(rng)
        member.faults.awake.close()
        self._until(fault, member.faults.awake.open)

    def _etcd_slow(self, fault: Fault, rng: Random) -> None:
        member = self._member(rng)
        member.faults.delay_s = rng.choice((0.05, 0.5, 1.5))
        self._until(fault, lambda: setattr(member.faults, "delay_s", 0.0))

    def _etcd_lost(self, fault: Fault, rng: Random) -> None:
        """Let the outcome of the next transactions be unknown to the brokers."""
        kinds = rng.choices(list(RequestFault), k=rng.randint(1, 4))
        for member in self._world.etcd.etcd.members:
            member.faults.add(TXN, *kinds)

    def _etcd_lag(self, fault: Fault, rng: Random) -> None:
        """Let the watches at a member get nothing for a while."""
        member = self._member(rng)
        member.faults.watches.close()
        self._until(fault, member.faults.watches.open)

    def _etcd_compact(self, fault: Fault, rng: Random) -> None:
        """Compact the history behind the watches at a member."""
        member = self._member(rng)
        member.faults.watches.close()
        state = self._world.etcd.etcd.state

        def compact() -> None:
            revision = state.put(FOREIGN, b"")
            if revision > state.kv.compacted:
                state.kv.compact(revision)
            member.faults.watches.open()

        self._until(fault, compact)

    def _etcd_leaderless(self, fault: Fault, rng: Random) -> None:
        etcd = self._world.etcd.etcd
        etcd.lose_leader()
        self._world.after(rng.randint(300_000, 3_000_000), etcd.elect)

    def _etcd_kill(self, fault: Fault, rng: Random) -> bool:
        member = self._member(rng)
        etcd = self._world.etcd
        if etcd.is_down(member):
            return False
        etcd.kill(member)
        self._world.after(
            min(fault.for_us, 3_000_000),
            lambda: self._world.background(etcd.start_member(member)),
        )
        return True

    def _etcd_lease(self, fault: Fault, rng: Random) -> bool:
        """End the lease of a broker, as an operator can."""
        state = self._world.etcd.etcd.state
        leases = state.leases.all()
        if not leases:
            return False
        state.end_lease(rng.choice(leases).id)
        return True

    def _member(self, rng: Random) -> SimMember:
        return rng.choice(self._world.etcd.etcd.members)

    # --- one broker's disk and clock

    def _slow_disk(self, fault: Fault, rng: Random) -> None:
        weather = self._world.nodes[rng.choice(self._world.ids)].disk.weather
        weather.sync_us = (50_000, 400_000)
        self._until(fault, lambda: setattr(weather, "sync_us", (100, 2_000)))

    def _skew(self, fault: Fault, rng: Random) -> None:
        """Let the wall clocks of the brokers differ by up to 20 minutes."""
        for node in self._world.nodes.values():
            node.clock.wall_offset_ms = rng.randint(-TEN_MINUTES_MS, TEN_MINUTES_MS)

    def _wall_step(self, fault: Fault, rng: Random) -> None:
        node = self._world.nodes[rng.choice(self._world.ids)]
        node.clock.step_wall(rng.choice((-HOUR_MS, HOUR_MS, 2_000, -2_000)))
