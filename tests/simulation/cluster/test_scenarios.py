"""The scenarios of several brokers, each as a cluster with the faults of its row. In all of them
every promise must hold, and at the end all brokers must be in sync."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

import pytest

from oncelog_protocol.features import TRANSACTION_VERSION
from oncelog_server.cluster import records
from oncelog_server.group.classic.states import GroupState
from oncelog_server.log.results import Appended
from oncelog_server.partition.partition import Partition
from tests.simulation.cluster.aimed import (
    AimedWorld,
    CutsMarkers,
    LosesLast,
    MovesCoordinators,
    OneWay,
)
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.metadata import PREFIX
from tests.simulation.cluster.options import SESSION_MS, ClusterOptions
from tests.simulation.cluster.run import run_cluster
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.etcd.gateway import Document, Gateway
from tests.simulation.fault import Fault
from tests.simulation.kinds import CLUSTER
from tests.simulation.loop import Scheduling
from tests.simulation.report import failure_lines
from tests.simulation.run import Verdict

SEED: Final = 1
S: Final = 1_000_000
OPTIONS: Final = ClusterOptions(
    scheduling=Scheduling.FIFO,
    step_us=5,
    flush_on_ack=False,
    latency_us=(500, 5_000),
    segmentation=0.0,
    coalescing=0.5,
    clogging=0.0,
    small_window=False,
    replaying=0.0,
    replay_after_us=(100, 1_000),
    drift_ppm=0,
    segment_bytes=4_000,
    index_interval_bytes=200,
    transaction_partitions=2,
    offsets_partitions=2,
    topic_partitions=2,
    transaction_timeout_ms=4_000,
    checkpoint_ms=2_000,
    flush_ms=None,
    cleaner_backoff_ms=500,
    cleanable_ratio=0.5,
    periods=2,
    period_us=4 * S,
    faults_per_period=1,
    kinds=(),
    damage=0.0,
    loss_ordered=False,
    loss_holes=0.3,
    workloads={"append": 1, "copy": 1, "plain": 1, "reader": 1},
    transactions=12,
    delivery_timeout_ms=8_000,
    max_block_ms=8_000,
    pace=25.0,
)


def run(
    *faults: tuple[float, str, float], kind: type[ClusterWorld] = ClusterWorld, **changed: object
) -> Verdict:
    """Run a cluster with faults: each with its time, its kind and its duration in seconds."""
    drawn = [
        Fault(number, int(at_s * S), fault, int(for_s * S), number)
        for number, (at_s, fault, for_s) in enumerate(faults)
    ]
    options = replace(OPTIONS, **changed)  # type: ignore[arg-type]
    verdict = run_cluster(SEED, options, drawn, kind=kind)
    assert not verdict.failed, "\n".join(failure_lines(verdict, option=CLUSTER.option))
    for _, fault, _ in faults:
        assert verdict.inflicted[fault] >= 1
    return verdict


@cache
def undisturbed() -> Verdict:
    return run()


def test_without_faults_no_leader_changes_and_no_commit_fails() -> None:
    verdict = undisturbed()
    assert not verdict.met["leader elected"]
    assert not verdict.met["ISR shrunk"]
    assert not verdict.met["commit outcome unknown"]


def test_s13_all_brokers_lose_power_at_once_and_nothing_that_was_on_disk_is_lost() -> None:
    verdict = run((1.5, "power-all", 1.0), (5.0, "power-all", 0.5), flush_on_ack=True)
    assert verdict.met["start after a crash"] >= 2 * OPTIONS.brokers


def test_coordinators_move_between_brokers_with_clocks_that_differ_by_minutes() -> None:
    verdict = run((0.0, "skew", 1.0), kind=MovesCoordinators)
    assert verdict.met["a coordinator has moved"] == 2
    assert verdict.met["marker of a later coordinator"]


def test_n5_transactions_end_after_the_cut_between_their_coordinator_and_a_leader() -> None:
    """The third broker reaches both."""
    verdict = run(kind=CutsMarkers)
    assert verdict.met["a marker has waited for the end of a cut"]


@pytest.mark.parametrize("is_deaf", [False, True], ids=["sends nothing", "receives nothing"])
def test_n10_a_broker_sends_and_does_not_receive_or_receives_and_does_not_send(
    is_deaf: bool,
) -> None:
    class Lost(OneWay):
        pass

    Lost.is_deaf = is_deaf
    verdict = run(kind=Lost)
    assert verdict.met["another broker coordinates"] == 1
    assert verdict.met["ISR shrunk"]


def test_n13_two_of_three_brokers_are_stopped_and_go_on_together() -> None:
    verdict = run((1.0, "pause-two", 6.0), (4.0, "pause", 3.0))
    assert verdict.met["the registration has ended: register again"]


def test_b5_the_last_replica_in_the_isr_loses_power() -> None:
    """The partition waits for a replica with all records, and elects no other one."""
    verdict = run(kind=LosesLast)
    assert verdict.met["the last in an ISR has lost its power"] == 1
    assert verdict.met["the last in an ISR is up again, and alone"] == 1


@pytest.mark.parametrize("sessions", [0.5, 1.0, 3.0])
def test_b11_etcd_is_silent_for_a_part_of_a_session_and_for_several(sessions: float) -> None:
    away_s = sessions * SESSION_MS / 1000
    verdict = run((1.0, "etcd-silent", away_s), (5.0, "etcd-silent", away_s))
    # All leases end at once, so no other broker can be elected meanwhile.
    assert bool(verdict.met["the registration has ended: register again"]) is (sessions >= 1.0)


def test_b12_a_member_of_etcd_accepts_connections_and_responds_to_nothing() -> None:
    verdict = run((1.0, "etcd-silent", 3.0), (5.0, "etcd-silent", 3.0), etcd_members=3)
    assert verdict.met["the registration could not be renewed"]
    # The brokers have used another member of etcd in time.
    assert not verdict.met["the registration has ended: register again"]


def test_b13_the_outcomes_of_many_changes_of_the_metadata_are_unknown() -> None:
    lost = [(0.5 + number / 2, "etcd-lost", 0.1) for number in range(14)]
    # A start writes before its registration, so the registrations of running brokers end.
    ends = [(at_s, "etcd-lease", 0.1) for at_s in (2.505, 4.005, 6.505)]
    verdict = run(*lost, *ends, (1.2, "kill", 3.0), (5.2, "kill", 2.0))
    assert verdict.met["the broker waits for its metadata"]
    assert verdict.met["the outcome of the registration is unknown"]
    assert verdict.met["leader elected"]


def test_b14_the_watches_fall_behind_a_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Gateway] = []
    compacted = Gateway.compacted

    def noted(gateway: Gateway) -> Document:
        ended.append(gateway)
        return compacted(gateway)

    monkeypatch.setattr(Gateway, "compacted", noted)
    run((1.0, "etcd-compact", 2.0), (1.5, "kill", 1.0), (5.0, "etcd-compact", 1.0))
    # The watches of all brokers.
    assert len(ended) >= OPTIONS.brokers


def test_b25_preferred_leaders_are_elected_under_load() -> None:
    verdict = run((1.0, "roll", 1.0), (4.5, "roll", 1.0))
    assert verdict.met["preferred leader elected"] > 2 * OPTIONS.topic_partitions


def test_b28_a_broker_reaches_etcd_and_no_other_broker() -> None:
    verdict = run((1.0, "etcd-only", 5.0))
    assert verdict.met["ISR shrunk"]
    assert not verdict.met["the registration has ended: register again"]


def test_b29_a_broker_reaches_the_other_brokers_and_not_etcd() -> None:
    verdict = run((1.0, "peers-only", 6.0))
    assert verdict.met["leader elected"]


class ChangingVersion(ClusterWorld):
    """The cluster's transaction.version changes under its clients, so that the coordinators send
    markers of both versions."""

    async def work(self, faults: list[Fault]) -> None:
        for number, at_us in enumerate(range(S // 2, 8 * S, S // 2)):
            self.after(at_us, partial(self.set_version, 2 * (number % 2)))
        await super().work(faults)

    def set_version(self, level: int) -> None:
        """Change the version, and break the connections of clients, which learn it on connect."""
        if self.is_healed:
            return
        value = records.encode(records.FeaturesRecord({TRANSACTION_VERSION: level}))
        self.etcd.etcd.state.put(PREFIX + records.FEATURES.encode(), value)
        clients = {client.name for client in self.clients}
        for link in self.net.open_links():
            if link.hosts[0] in clients:
                self.net.reset(link)
        self.sometimes.met(f"transaction.version {level}")


def test_v3m_a_rolling_restart_with_markers_of_two_transaction_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions: Counter[int] = Counter()
    append_marker = Partition.append_marker

    def counted(partition: Partition, *producer: int, **marker: Any) -> Appended:
        versions[marker["transaction_version"]] += 1
        return append_marker(partition, *producer, **marker)

    monkeypatch.setattr(Partition, "append_marker", counted)
    verdict = run((1.0, "roll", 1.0), (4.5, "roll", 1.0), kind=ChangingVersion)
    assert min(verdict.met[f"transaction.version {level}"] for level in (0, 2)) > 3
    assert min(versions[level] for level in (0, 2)) > 3
    assert verdict.met["clean stop"] >= 2 * OPTIONS.brokers


class LosesGroups(AimedWorld):
    """A cluster that loses the coordinator of a group in its rebalance, with pending offsets."""

    look_s = 0.001

    async def strike(self) -> None:
        def rebalancing() -> Iterator[MemberNode]:
            return (node for node in self.up() if self._is_rebalancing(node))

        if await self.until(lambda: next(rebalancing(), None)):
            node = next(rebalancing())
            self.sometimes.met("a coordinator was lost in a rebalance")
            node.kill()
            self.restart_after(node, 3 * S)

    def _is_rebalancing(self, node: MemberNode) -> bool:
        if node.is_restarting:
            return False
        for _, shard in node.broker.groups.runtime.shards():
            pending = shard.table.offsets.snapshot()[1]
            states = [GroupState(group.state_name) for group in shard.table.groups.values()]
            if pending and GroupState.PREPARING_REBALANCE in states:
                return True
        return False


def test_g6_a_group_loses_its_coordinator_in_a_rebalance_with_pending_offsets() -> None:
    workloads = {"append": 1, "copy": 3}
    kills = [(0.5 + number / 2, "kill-client", 0.5) for number in range(10)]
    verdict = run(*kills, kind=LosesGroups, workloads=workloads, offsets_partitions=1)
    assert verdict.met["a coordinator was lost in a rebalance"] == 1


def test_b31_a_broker_that_lives_and_refuses_connections_stays_registered() -> None:
    """Each broker has an exit monitor, so the registration of a broker that dies ends early. No
    broker ends the registration of another broker that only refuses connections."""
    verdict = run((1.0, "refuse", 6.0), (2.0, "refuse", 5.0), exit_monitors=1.0)
    assert verdict.met["no link to broker"]
    assert not verdict.met["the registration has ended: register again"]
    assert not verdict.met["an exit monitor has ended a registration"]


def test_b32_the_registration_of_a_dead_broker_ends_with_its_process() -> None:
    verdict = run((1.0, "kill-uncommitted", 3.0), (3.0, "kill-two", 2.0), exit_monitors=1.0)
    assert verdict.met["an exit monitor has ended a registration"] >= 2
    assert verdict.met["leader elected"]


def test_b32_the_registration_of_a_broker_that_lives_is_ended_early() -> None:
    """An exit monitor cannot do this, but an operator can. Acknowledged records do not depend on
    the time of a registration."""
    verdict = run((1.0, "etcd-lease", 1.0), (2.0, "etcd-lag", 3.0), (2.5, "etcd-lease", 1.0))
    assert verdict.met["the registration has ended: register again"]
