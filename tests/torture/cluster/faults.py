"""The faults of a cluster: processes of brokers and of etcd that die or stand still, and networks
that are cut. A seed decides which process or network fails, and for how long. A process is drawn by
its role."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd, EtcdMember
from tests.harness.relays import Relays
from tests.harness.waiting import wait_until
from tests.torture.cluster.relayed import CLIENT_HOST, broker_host, etcd_host

SESSION_S: Final = 2.0
# A broker that stands still for this long has lost its session, and may continue in another epoch.
PAUSE_S: Final = 3 * SESSION_S
# Some cuts end before the session does, and before a follower leaves the ISR.
SHORTEST_CUT_S: Final = 0.3
LONGEST_CUT_S: Final = PAUSE_S
# A supervisor needs some time to start a process again.
LONGEST_ABSENCE_S: Final = 2.0
LONGEST_START_S: Final = 1.0
CALL_S: Final = 10.0
INTERNAL: Final = "__"
REFUSED: Final = "refused"
LATE: Final = "late"
LOST: Final = "lost"
ROLES: Final = ("controller", "leader", "coordinator")

Pairs = set[tuple[str, str]]


@dataclass(slots=True)
class Scene:
    """What faults act on."""

    cluster: Cluster
    etcd: Etcd
    relays: Relays
    admin: AdminClient
    randomness: random.Random

    def victim(self) -> tuple[int, str]:
        """Return a broker, and its role."""
        role = self.randomness.choice(ROLES)
        try:
            found = self.admin.list_topics(timeout=CALL_S)
        except KafkaException:
            return self.randomness.choice([*self.cluster.brokers]), "any"
        id_ = found.controller_id if role == "controller" else self._leader(found, role)
        if id_ not in self.cluster.brokers:
            return self.randomness.choice([*self.cluster.brokers]), "any"
        return id_, role

    def _leader(self, found: ClusterMetadata, role: str) -> int:
        """Return the leader of a random partition, of an internal topic if the role is that of a
        coordinator."""
        leaders = [
            int(partition.leader)
            for name, topic in sorted(found.topics.items())
            for _, partition in sorted(topic.partitions.items())
            if name.startswith(INTERNAL) == (role == "coordinator")
        ]
        return self.randomness.choice(leaders) if leaders else -1

    def others(self, id_: int) -> list[int]:
        return [other for other in self.cluster.brokers if other != id_]

    def pass_time(self, shortest_s: float, longest_s: float) -> None:
        """Let a random time pass, while the fault lasts."""
        time.sleep(self.randomness.uniform(shortest_s, longest_s))

    @contextmanager
    def cut(self, pairs: Pairs) -> Iterator[str]:
        """Cut the network in the block. Yield how: in which directions, whether connections are
        refused or silent, and whether what was sent arrives late or is lost."""
        directions = self.randomness.choice(("both directions", "to the first", "from the first"))
        back = {(to, from_) for from_, to in pairs}
        chosen = {"to the first": back, "from the first": pairs}.get(directions, pairs | back)
        way = self.randomness.choice((REFUSED, LATE, LOST))
        self.relays.cut(chosen, refusing=way == REFUSED)
        try:
            yield f"{directions}, {way}"
        finally:
            if way == LOST:
                self.relays.cut(chosen, refusing=True)
            self.relays.heal()

    def cut_for_a_time(self, pairs: Pairs) -> str:
        """Cut the network for a random time. Return how."""
        with self.cut(pairs) as how:
            self.pass_time(SHORTEST_CUT_S, LONGEST_CUT_S)
        return how


def kill_broker(scene: Scene) -> str:
    id_, role = scene.victim()
    scene.cluster.brokers[id_].kill()
    scene.pass_time(0, LONGEST_ABSENCE_S)
    scene.cluster.brokers[id_].start()
    return f"broker {id_} ({role})"


def kill_starting_broker(scene: Scene) -> str:
    id_, role = scene.victim()
    broker = scene.cluster.brokers[id_]
    broker.kill()
    broker.spawn()
    scene.pass_time(0, LONGEST_START_S)
    broker.kill()
    broker.start()
    return f"broker {id_} ({role})"


def kill_two_brokers(scene: Scene) -> str:
    """The second broker dies while the first one is down, so that partitions are below the min
    ISR."""
    id_, role = scene.victim()
    second = scene.randomness.choice(scene.others(id_))
    for killed in (id_, second):
        scene.cluster.brokers[killed].kill()
        scene.pass_time(0, LONGEST_START_S)
    for killed in scene.randomness.sample((id_, second), 2):
        scene.cluster.brokers[killed].start()
    return f"broker {id_} ({role}), then broker {second}"


def kill_all_brokers(scene: Scene) -> str:
    order = scene.randomness.sample([*scene.cluster.brokers], len(scene.cluster.brokers))
    for id_ in order:
        scene.cluster.brokers[id_].kill()
    scene.cluster.start()
    return f"brokers {order}"


def suspend_broker(scene: Scene) -> str:
    id_, role = scene.victim()
    pid = scene.cluster.brokers[id_].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(PAUSE_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    return f"broker {id_} ({role})"


def cut_brokers(scene: Scene) -> str:
    id_, role = scene.victim()
    other = scene.randomness.choice(scene.others(id_))
    how = scene.cut_for_a_time({(broker_host(id_), broker_host(other))})
    return f"broker {id_} ({role}) and broker {other}, {how}"


def isolate_from_brokers(scene: Scene) -> str:
    id_, role = scene.victim()
    how = scene.cut_for_a_time(
        {(broker_host(id_), broker_host(other)) for other in scene.others(id_)}
    )
    return f"broker {id_} ({role}), {how}"


def cut_clients(scene: Scene) -> str:
    id_, role = scene.victim()
    return f"broker {id_} ({role}), {scene.cut_for_a_time({(broker_host(id_), CLIENT_HOST)})}"


def isolate_from_etcd(scene: Scene) -> str:
    id_, role = scene.victim()
    return f"broker {id_} ({role}), {scene.cut_for_a_time(_to_etcd(scene, id_))}"


def isolate(scene: Scene) -> str:
    """Clients still reach the broker."""
    id_, role = scene.victim()
    pairs = {(broker_host(id_), broker_host(other)) for other in scene.others(id_)}
    return f"broker {id_} ({role}), {scene.cut_for_a_time(pairs | _to_etcd(scene, id_))}"


def kill_during_cut(scene: Scene) -> str:
    """Any of the three brokers dies, and starts when the network is whole again."""
    id_, role = scene.victim()
    other = scene.randomness.choice(scene.others(id_))
    killed = scene.randomness.choice([*scene.cluster.brokers])
    with scene.cut({(broker_host(id_), broker_host(other))}) as how:
        scene.pass_time(SHORTEST_CUT_S, LONGEST_CUT_S)
        scene.cluster.brokers[killed].kill()
        scene.pass_time(0, LONGEST_ABSENCE_S)
    scene.cluster.brokers[killed].start()
    return f"broker {killed}, in a cut of broker {id_} ({role}) and broker {other}, {how}"


def kill_beside_suspended(scene: Scene) -> str:
    """Another broker dies while the first one stands still, and starts when the first one
    continues."""
    id_, role = scene.victim()
    killed = scene.randomness.choice(scene.others(id_))
    pid = scene.cluster.brokers[id_].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        scene.pass_time(0, PAUSE_S)
        scene.cluster.brokers[killed].kill()
        scene.pass_time(0, LONGEST_ABSENCE_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    scene.cluster.brokers[killed].start()
    return f"broker {killed}, beside broker {id_} ({role})"


def _to_etcd(scene: Scene, id_: int) -> Pairs:
    return {(broker_host(id_), etcd_host(number)) for number in range(len(scene.etcd.members))}


def kill_etcd_leader(scene: Scene) -> str:
    leader = _etcd_leader(scene.etcd)
    leader.kill()
    scene.pass_time(0, LONGEST_ABSENCE_S)
    scene.etcd.start(leader)
    return leader.name


def suspend_etcd_leader(scene: Scene) -> str:
    leader = _etcd_leader(scene.etcd)
    leader.pause()
    try:
        time.sleep(PAUSE_S)
    finally:
        leader.resume()
    return leader.name


def kill_broker_and_etcd_leader(scene: Scene) -> str:
    id_, role = scene.victim()
    leader = _etcd_leader(scene.etcd)
    scene.cluster.brokers[id_].kill()
    leader.kill()
    scene.pass_time(0, LONGEST_ABSENCE_S)
    scene.etcd.start(leader)
    scene.cluster.brokers[id_].start()
    return f"broker {id_} ({role}), {leader.name}"


def _etcd_leader(etcd: Etcd) -> EtcdMember:
    """Return the leader, once there is one."""
    found: list[EtcdMember] = []

    def is_there() -> bool:
        try:
            found.append(etcd.leader())
        except (OSError, AssertionError):
            return False
        return True

    wait_until(is_there, "etcd has a leader")
    return found[-1]


# Each kind with its weight.
KINDS: Final[Mapping[str, tuple[float, Callable[[Scene], str]]]] = {
    "kill -9 of a broker": (8, kill_broker),
    "kill -9 of a starting broker": (2, kill_starting_broker),
    "kill -9 of two brokers": (2, kill_two_brokers),
    "kill -9 of all brokers": (1, kill_all_brokers),
    "SIGSTOP of a broker for three sessions": (4, suspend_broker),
    "cut between two brokers": (4, cut_brokers),
    "kill -9 of a broker during a cut": (3, kill_during_cut),
    "kill -9 of a broker beside a suspended one": (2, kill_beside_suspended),
    "cut between a broker and the others": (2, isolate_from_brokers),
    "cut between a broker and all clients": (4, cut_clients),
    "cut between a broker and etcd": (3, isolate_from_etcd),
    "cut of a broker from brokers and etcd": (2, isolate),
    "kill -9 of the leader of etcd": (4, kill_etcd_leader),
    "SIGSTOP of the leader of etcd": (1, suspend_etcd_leader),
    "kill -9 of a broker and the leader of etcd": (2, kill_broker_and_etcd_leader),
}
