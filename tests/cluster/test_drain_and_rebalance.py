"""`oncelog cluster drain` and `rebalance` on real brokers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from oncelog_client import NewTopic, TopicPartition
from oncelog_client.admin import AlterConfigOp, ConfigResource, ElectionType, ResourceType
from oncelog_client.core.move_throttles import RATES, REPLICAS
from oncelog_client.errors import KafkaError
from oncelog_client.sync import Admin, Producer
from tests.client.cli.conftest import CommandLine
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.waiting import wait_until

CALL_S = 30.0
ONE_COPY_ENOUGH = {"min.insync.replicas": "1"}
# The first broker of each is the preferred leader.
PAIRS = {number: [(1, 2), (2, 3), (3, 1)][number % 3] for number in range(6)}
RECORD = b"x" * 1_000
PROGRAM = Path(sys.executable).with_name("oncelog")


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.address) as admin:
        yield admin


def create(admin: Admin, name: str, assignments: Mapping[int, tuple[int, ...]]) -> None:
    rows = {number: list(brokers) for number, brokers in assignments.items()}
    admin.create_topics([NewTopic(name, assignments=rows, configs=ONE_COPY_ENOUGH)])

    def is_led() -> bool:
        try:
            return None not in leaders(admin, name).values()
        except KafkaError:  # this broker does not see the topic yet
            return False

    wait_until(is_led, "leaders", CALL_S)


def write(cluster: Cluster, topic: str, partitions: int, count: int) -> None:
    """Write `count` records to each partition."""
    with Producer(cluster.address) as producer:
        for number in range(count * partitions):
            producer.send(topic, RECORD, partition=number % partitions)
        producer.flush()


def replicas(admin: Admin, topic: str) -> dict[int, tuple[int, ...]]:
    found = admin.describe_topics([topic])[topic].partitions
    return {partition.partition: partition.replicas for partition in found}


def leaders(admin: Admin, topic: str) -> dict[int, int | None]:
    found = admin.describe_topics([topic])[topic].partitions
    return {partition.partition: partition.leader for partition in found}


def throttles(admin: Admin, topic: str) -> dict[str, str]:
    """Return the settings of throttles that the topic or a live broker has."""
    resources = [ConfigResource(ResourceType.TOPIC, topic)]
    resources += [
        ConfigResource(ResourceType.BROKER, str(node.node_id))
        for node in admin.describe_cluster().nodes
    ]
    found = {}
    for resource, entries in admin.describe_configs(resources).items():
        for name in (*RATES, *REPLICAS):
            if name in entries and not entries[name].is_default and entries[name].value:
                found[f"{resource.name} {name}"] = entries[name].value or ""
    return found


def test_a_drained_broker_has_nothing_and_can_be_unregistered(
    cluster: Cluster, admin: Admin
) -> None:
    command_line = CommandLine(cluster.address)
    create(admin, "t", PAIRS)
    write(cluster, "t", 6, 5)
    plan = command_line.json("cluster", "drain", "3")
    assert {row["partition"] for row in plan} == {1, 2, 4, 5}
    assert all(len(row["new_replicas"]) == 2 and 3 not in row["new_replicas"] for row in plan)
    assert replicas(admin, "t") == PAIRS, "without --execute nothing is changed"

    done = command_line.call("cluster", "drain", "3", "--execute", "--throttle", "100000000")
    assert done.exit_code == 0, done.output
    assert "safe to stop" in done.stderr
    assert "cluster unregister 3" in done.stderr
    assert all(set(row) == {1, 2} for row in replicas(admin, "t").values())
    assert throttles(admin, "t") == {}, "the throttle is removed"
    again = command_line.call("cluster", "drain", "3", "--execute")
    assert again.exit_code == 0, again.output
    assert "has no replica" in again.stderr

    assert "is alive" in command_line.refused("cluster", "unregister", "3")
    cluster.brokers[3].stop()
    command_line.settled(lambda rows: rows[2]["state"] == "fenced", "cluster", "brokers")
    command_line.text("cluster", "unregister", "3")
    command_line.settled(
        lambda rows: [row["broker"] for row in rows] == [1, 2], "cluster", "brokers"
    )


def test_a_drain_is_refused_if_a_partition_has_no_other_place(
    cluster: Cluster, admin: Admin
) -> None:
    create(admin, "t", {0: (1, 2, 3)})
    create(admin, "u", {0: (1, 2)})
    command_line = CommandLine(cluster.address)
    for flags in ((), ("--execute",)):
        said = command_line.refused("cluster", "drain", "1", *flags)
        assert "t-0" in said, said
        assert "u-0" not in said, said
        assert "2 other live brokers" in said
        assert "Start another broker" in said
    assert (replicas(admin, "t")[0], replicas(admin, "u")[0]) == ((1, 2, 3), (1, 2))
    assert "no broker 9" in command_line.refused("cluster", "drain", "9")
    assert command_line.call("cluster", "drain", "1", "--throttle", "5").exit_code == 2


def test_only_the_leaders_of_a_broker_move(cluster: Cluster, admin: Admin) -> None:
    """No election gives the drained broker a leader back, not even one by the controller. A
    rebalance does."""
    command_line = CommandLine(cluster.address)
    create(admin, "t", PAIRS)
    plan = command_line.json("cluster", "drain", "2", "--leaders-only")
    assert [row["partition"] for row in plan] == [1, 4]
    assert all(row["copied_to"] == [] and row["new_leader"] == 3 for row in plan)
    done = command_line.call("cluster", "drain", "2", "--leaders-only", "--execute")
    assert done.exit_code == 0, done.output
    assert 2 not in leaders(admin, "t").values()
    assert {number: set(row) for number, row in replicas(admin, "t").items()} == {
        number: set(row) for number, row in PAIRS.items()
    }
    admin.elect_leaders(ElectionType.PREFERRED)
    assert 2 not in leaders(admin, "t").values()
    command_line.text("cluster", "rebalance", "--execute")
    assert Counter(leaders(admin, "t").values()) == {1: 2, 2: 2, 3: 2}


def test_a_leader_without_another_replica_in_sync_stays_and_is_named(
    cluster: Cluster, admin: Admin
) -> None:
    create(admin, "t", {0: (2,)})
    create(admin, "u", {0: (2, 3)})
    command_line = CommandLine(cluster.address)
    plan = command_line.call("cluster", "drain", "2", "--leaders-only")
    assert plan.exit_code == 0, plan.output
    assert "would still lead 1 partition, because no other replica is in sync: t-0" in plan.stderr
    said = command_line.refused("cluster", "drain", "2", "--leaders-only", "--execute")
    assert "still leads 1 partition" in said
    assert "t-0" in said
    assert (leaders(admin, "t")[0], leaders(admin, "u")[0]) == (2, 3)


def test_moves_go_on_without_the_command_and_are_cancelled(cluster: Cluster, admin: Admin) -> None:
    """Broker 3 copies nothing while it is stopped, so the moves to it stay in progress."""
    command_line = CommandLine(cluster.address)
    create(admin, "t", dict.fromkeys(range(4), (1,)))
    place = TopicPartition("t", 0)
    cluster.brokers[3].stop()
    admin.alter_partition_reassignments({place: [3]})
    # Each broker sees the move, and the end of broker 3, a little later than the controller.
    command_line.settled(
        lambda plan: {row["partition"] for row in plan} == {1, 2, 3}, "cluster", "drain", "1"
    )
    admin.alter_configs(
        {ConfigResource(ResourceType.TOPIC, "t"): [AlterConfigOp(REPLICAS[0], "0:1")]}
    )
    cancelled = command_line.json("cluster", "drain", "1", "--cancel")
    assert cancelled == [{"topic": "t", "partition": 0}]
    assert admin.list_partition_reassignments() == {}
    assert throttles(admin, "t") == {}, "the cancellation removes the throttle"
    assert replicas(admin, "t")[0] == (1,)
    assert command_line.json("cluster", "rebalance", "--cancel") == []


def test_a_new_broker_gets_its_share(tmp_path: Path, real_etcd: Etcd) -> None:
    settings = {"oncelog.etcd.prefix": "/share/", "broker.rack": "a"}
    everywhere = dict.fromkeys(range(6), (1, 2))
    with (
        Cluster(tmp_path, real_etcd, settings=settings) as cluster,
        Admin(cluster.address) as admin,
    ):
        command_line = CommandLine(cluster.address)
        create(admin, "t", everywhere)
        write(cluster, "t", 6, 5)
        plan = command_line.json("cluster", "rebalance")
        assert sum(len(row["copied_to"]) for row in plan) == 4
        assert {broker for row in plan for broker in row["copied_to"]} == {3}
        assert replicas(admin, "t") == everywhere
        done = command_line.call("cluster", "rebalance", "--execute")
        assert done.exit_code == 0, done.output
        counts = Counter(broker for row in replicas(admin, "t").values() for broker in row)
        assert counts == {1: 4, 2: 4, 3: 4}
        assert Counter(leaders(admin, "t").values()) == {1: 2, 2: 2, 3: 2}
        again = command_line.call("cluster", "rebalance")
        assert again.exit_code == 0, again.output
        assert "balanced" in again.stderr
        assert command_line.json("cluster", "rebalance") == []


def test_an_interrupted_drain_continues_is_seen_and_can_be_cancelled(
    cluster: Cluster, admin: Admin
) -> None:
    """The throttle is so low that the moves do not end by themselves."""
    create(admin, "t", {0: (3, 1), 1: (3, 1)})
    write(cluster, "t", 2, 6_000)
    call = [str(PROGRAM), "cluster", "drain", "3", "--execute", "--throttle", "1"]
    process = subprocess.Popen(
        [*call, "--bootstrap-server", cluster.address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    places = {TopicPartition("t", 0), TopicPartition("t", 1)}
    wait_until(lambda: admin.list_partition_reassignments().keys() >= places, "moves", CALL_S)
    rates = {f"{broker} {name}": "1" for broker in (1, 2, 3) for name in RATES}
    assert throttles(admin, "t") == rates | {
        f"t {REPLICAS[0]}": "0:3,0:1,1:3,1:1",
        f"t {REPLICAS[1]}": "0:2,1:2",
    }
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=CALL_S)
    assert process.returncode == 130, said
    assert "moves that have begun continue" in said
    assert "oncelog cluster drain 3 --execute" in said
    assert admin.list_partition_reassignments().keys() >= places

    again = subprocess.Popen(
        [*call[:-1], "2", "--bootstrap-server", cluster.address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    second = dict.fromkeys(rates, "2")
    wait_until(lambda: second.items() <= throttles(admin, "t").items(), "the second rate", CALL_S)
    again.send_signal(signal.SIGINT)
    assert again.wait(CALL_S) == 130

    command_line = CommandLine(cluster.address)

    def is_stalled() -> bool:
        """Return True if the doctor reports a stalled move. It does so between two fetches, which
        the throttle allows every eleven seconds."""
        findings = json.loads(command_line.call("cluster", "doctor", "--json").stdout)
        (row,) = (row for row in findings if row["check"] == "stalled moves")
        return "t-0 (broker 2 gets no records)" in row["found"] and row["state"] == "problem"

    wait_until(is_stalled, "a stalled move", CALL_S)
    cancelled = command_line.json("cluster", "drain", "3", "--cancel")
    assert {"topic": "t", "partition": 1} in cancelled
    assert admin.list_partition_reassignments() == {}
    assert throttles(admin, "t") == {}
    assert all(set(row) == {3, 1} for row in replicas(admin, "t").values())
    command_line.text("cluster", "drain", "3", "--execute")
    assert all(3 not in row for row in replicas(admin, "t").values())
