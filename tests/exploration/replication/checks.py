"""The rules of replication, for every world (see `docs/testing.md`).

A rule concerns a broker and the store, or two brokers. Each such pair is judged once, although many
worlds have it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import combinations
from typing import Final

from oncelog_server.cluster.image import NO_LEADER, PartitionImage
from oncelog_server.cluster.partition_change import members_of
from tests.exploration.replication.log_model import Batches
from tests.exploration.replication.states import BrokerState
from tests.exploration.replication.world import Cluster, World

_RIGHT: Final = ()


class Rulings:
    """The rules, with the judgements so far."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[Hashable, tuple[str, ...]] = {}
        self._rules: dict[Hashable, Callable[..., Iterator[str]]] = {
            "broker": self._of_broker,
            "pair": self._of_pair,
            "change": self._of_change,
        }

    def check(self, world: World) -> list[str]:
        """Return the violations of a world."""
        found: list[str] = []
        for index, state in enumerate(world.brokers):
            found += self._judged(("broker", index, state, world.store, world.committed))
        for first, second in combinations(world.brokers, 2):
            found += self._judged(("pair", first, second))
        return found

    def check_change(self, before: World, after: World) -> tuple[str, ...]:
        """Return the violations of a step's change of the metadata."""
        if before.store == after.store:
            return ()
        return self._judged(("change", before.store, after.store, after.brokers))

    def _judged(self, key: tuple[Hashable, ...]) -> tuple[str, ...]:
        known = self._known.get(key)
        if known is None:
            kind, *about = key
            known = self._known[key] = tuple(self._rules[kind](*about)) or _RIGHT
        return known

    # --- a broker

    def _of_broker(self, index: int, number: int, store: int, committed: Batches) -> Iterator[str]:
        state, image = self._cluster.states[number], self._cluster.partition(store)
        broker_id = self._cluster.ids[index]
        high = state.high_watermark
        if state.batches[:high] != committed[:high]:
            yield f"CommittedForEver: broker {broker_id} has {state.batches[:high]} of {committed}"
        if high > len(committed):
            yield f"HighWatermark: broker {broker_id} has {high} of {len(committed)} committed"
        has_all = state.batches[: len(committed)] == committed
        members = members_of(image.isr, image.isr_epochs)
        members |= members_of(image.elr, image.elr_epochs)
        if members.get(broker_id, -1) > state.lost and not has_all:
            log = f"{state.batches} of {committed}"
            yield f"ReplicaComplete: {broker_id} has {log}, {_shown(image)}"
        process = state.process
        if process is None or not process.leads:
            return
        if (image.leader, image.leader_epoch) == (broker_id, process.leader_epoch):
            if not has_all:
                yield f"LeaderComplete: {broker_id} leads with {state.batches} of {committed}"
            replicas = process.replicas
            if not {*image.isr} <= {*replicas.isr, *replicas.proposed_isr}:
                yield f"QuorumSuperset: {broker_id} waits for {replicas.isr}, {_shown(image)}"
        elif image.leader_epoch == process.leader_epoch and image.leader != NO_LEADER:
            yield f"OneLeader: {broker_id} leads in epoch {process.leader_epoch}, {_shown(image)}"
        if process.leader_epoch > image.leader_epoch:
            yield f"LeaderEpoch: {broker_id} leads in {process.leader_epoch}, {_shown(image)}"

    # --- two brokers

    def _of_pair(self, first: int, second: int) -> Iterator[str]:
        state, other = self._cluster.states[first], self._cluster.states[second]
        if state.leads and other.leads:
            assert state.process is not None
            assert other.process is not None
            if state.process.leader_epoch == other.process.leader_epoch:
                yield f"OneLeader: two in epoch {state.process.leader_epoch}"
        same = True
        for offset, (batch, found) in enumerate(zip(state.batches, other.batches, strict=False)):
            if batch.epoch == found.epoch and not (same and batch == found):
                yield f"LogMatching: at {offset}: {state.batches} and {other.batches}"
            same = same and batch == found

    # --- a change of the metadata

    def _of_change(self, before: int, after: int, brokers: tuple[int, ...]) -> Iterator[str]:
        old, now = self._cluster.partition(before), self._cluster.partition(after)
        if now.leader != NO_LEADER and now.leader not in now.isr:
            yield f"LeaderInIsr: {_shown(now)}"
        if not {*now.isr, *now.elr} <= {*now.replicas} or {*now.isr} & {*now.elr}:
            yield f"StrongIsr: {_shown(now)}"
        if now.leader_epoch < old.leader_epoch or (
            now.leader != old.leader
            and now.leader_epoch == old.leader_epoch
            and NO_LEADER not in (now.leader, old.leader)
        ):
            yield f"LeaderEpoch: {_shown(old)} became {_shown(now)}"
        for broker_id in {*now.isr} - {*old.isr}:
            yield from self._of_joined(now, broker_id, brokers)

    def _of_joined(
        self, now: PartitionImage, broker_id: int, brokers: tuple[int, ...]
    ) -> Iterator[str]:
        """Check that a new member has all records up to the start of the leader epoch."""
        if now.leader == NO_LEADER or broker_id == now.leader:
            return
        ids = self._cluster.ids
        leader: BrokerState = self._cluster.states[brokers[ids.index(now.leader)]]
        if leader.process is None or not leader.leads:
            return
        if leader.process.leader_epoch != now.leader_epoch:
            return
        start = leader.process.replicas.epoch_start_offset
        member: BrokerState = self._cluster.states[brokers[ids.index(broker_id)]]
        if (
            members_of(now.isr, now.isr_epochs)[broker_id] > member.lost
            and member.batches[:start] != leader.batches[:start]
        ):
            yield f"JoinedIsr: {broker_id} has {member.batches}, the epoch begins at {start}"


def _shown(image: PartitionImage) -> str:
    return (
        f"leader {image.leader} in epoch {image.leader_epoch}, ISR {image.isr} {image.isr_epochs},"
        f" ELR {image.elr} {image.elr_epochs}"
    )
