"""`oncelog cluster doctor`, `health` and `unregister` name what is wrong, and what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_client import NewTopic, TopicPartition
from oncelog_client.admin import AlterConfigOp, ConfigResource, ElectionType, ResourceType
from oncelog_client.cli.broker_checks import several_versions
from oncelog_client.core.move_throttles import LEADER_RATE, LEADER_REPLICAS
from oncelog_client.sync import Admin, Producer
from oncelog_protocol import __version__
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.features import TRANSACTION_VERSION
from oncelog_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.client.cli.conftest import CommandLine
from tests.harness.cluster import Cluster
from tests.harness.driving import damage
from tests.harness.etcd import Etcd
from tests.harness.waiting import wait_until

CALL_S = 30.0
SAFE_DOWNGRADE = 2
# The position of the magic in a batch.
MAGIC = 16
ONE_REPLICA = "topics with one replica"
NOT_PREFERRED = "leaders not preferred"


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.address) as admin:
        yield admin


def findings(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return the findings that are not in order, by their check."""
    result = CommandLine(cluster.address).call("cluster", "doctor", "--json")
    rows = {row["check"]: row for row in json.loads(result.stdout)}
    is_problem = any(row["state"] == "problem" for row in rows.values())
    assert result.exit_code == int(is_problem), result.output
    assert all(row["to_do"] for row in rows.values() if row["state"] != "ok")
    return {check: row for check, row in rows.items() if row["state"] != "ok"}


def settled(cluster: Cluster, *checks: str) -> dict[str, dict[str, Any]]:
    """Wait until exactly these checks have findings, and return the findings. A busy computer may
    have fenced a broker for a moment, so the preferred leaders are elected again."""
    found: dict[str, dict[str, Any]] = {}

    def are_those() -> bool:
        found.clear()
        found.update(findings(cluster))
        if NOT_PREFERRED in found and NOT_PREFERRED not in checks:
            CommandLine(cluster.address).call("cluster", "rebalance", "--execute")
        return set(checks) == set(found) - {"full disks"}

    try:
        wait_until(are_those, f"findings of {checks}", CALL_S)
    except AssertionError as error:
        raise AssertionError(f"{found}") from error
    return found


def write(cluster: Cluster, value: str) -> None:
    """Write a record to the topic `pair`."""
    with Producer(cluster.address) as producer:
        producer.send("pair", value.encode()).result()


def create(admin: Admin, name: str, *replicas: int, least: int = 1) -> None:
    configs = {"min.insync.replicas": str(least)}
    admin.create_topics([NewTopic(name, assignments={0: list(replicas)}, configs=configs)])
    place = TopicPartition(name, 0)

    def is_preferred() -> bool:
        error = admin.elect_leaders(ElectionType.PREFERRED, [place])[place]
        return error is None or error.code is ErrorCode.ELECTION_NOT_NEEDED

    # On a busy computer, the first replica's broker may have been fenced at the creation.
    wait_until(is_preferred, f"the preferred leader of {name}-0", CALL_S)


def test_brokers_that_stop_one_after_the_other(cluster: Cluster, admin: Admin) -> None:
    command_line = CommandLine(cluster.address)
    create(admin, "pair", 3, 2, least=2)
    create(admin, "all", 3, 1, 2)
    create(admin, "alone", 2)
    found = settled(cluster, ONE_REPLICA)
    assert found[ONE_REPLICA]["state"] == "notice"
    assert found[ONE_REPLICA]["found"] == "alone"

    cluster.brokers[2].kill()
    found = settled(
        cluster,
        "offline partitions",
        "partitions below min ISR",
        "under-replicated partitions",
        "fenced brokers",
        ONE_REPLICA,
    )
    assert found["offline partitions"]["found"] == "alone-0 (only broker 2 has all records)"
    # The partition has one replica.
    assert "any other replica" not in found["offline partitions"]["to_do"]
    assert "no other copy" in found["offline partitions"]["to_do"]
    assert found["partitions below min ISR"]["found"] == "pair-0 (1 of 2 in sync)"
    late = found["under-replicated partitions"]["found"]
    assert "all-0 lacks broker 2 (not alive for " in late
    assert "pair-0" in late
    assert found["fenced brokers"]["found"] == "broker 2 with 3 replicas"
    checked = command_line.call("cluster", "health", "--json")
    assert checked.exit_code == 1
    below = {row["check"]: row for row in json.loads(checked.stdout)}["partitions below min ISR"]
    assert (below["state"], below["count"], below["what"]) == (
        "problem",
        1,
        ["pair-0 (1 of 2 in sync)"],
    )

    plan = command_line.call("cluster", "rebalance")
    assert plan.exit_code == 0, plan.output
    assert "1 partition without a leader cannot move: alone-0" in plan.stderr
    assert "alone" not in plan.stdout
    said = command_line.refused("cluster", "unregister", "2")
    assert "only replica with all records of 1 partition: alone-0" in said
    assert "--force" in said
    assert command_line.json("cluster", "brokers")[1]["state"] == "fenced"
    # The broker's other replicas can be copied to another broker, this one cannot.
    said = command_line.refused("cluster", "drain", "2", "--execute")
    assert "each of the 2 other live brokers has a replica already: all-0" in said
    forced = command_line.call("cluster", "unregister", "2", "--force")
    assert forced.exit_code == 0, forced.output
    assert "still a replica of 3 partitions" in forced.stderr
    admin.delete_topics(["all"])
    plan = command_line.call("cluster", "drain", "2")
    assert plan.exit_code == 0, plan.output
    assert "would still have 1 partition" in plan.stderr
    assert "alone-0" in plan.stderr
    said = command_line.refused("cluster", "drain", "2", "--execute")
    assert "still has 1 partition" in said
    assert "alone-0" in said
    pair = admin.describe_topics(["pair"])["pair"].partitions[0]
    assert set(pair.replicas) == {1, 3}, "the partition with a live replica has moved"


@pytest.mark.parametrize("disk", ["is lost", "is lost, and the broker killed", "is put back"])
def test_a_replica_with_records_is_elected_although_a_broker_with_a_new_disk_runs(
    cluster: Cluster, admin: Admin, disk: str
) -> None:
    """The broker led last. With its old disk it has all records."""
    broker = cluster.brokers[2]
    old = broker.data.with_name("old")
    create(admin, "pair", 2, 1)
    settled(cluster)
    write(cluster, "both have it")
    cluster.brokers[1].stop()
    write(cluster, "broker 2 has it")
    broker.kill()
    broker.data.rename(old)
    broker.start()
    if disk == "is lost, and the broker killed":
        broker.kill()
        broker.start()
    cluster.brokers[1].start()

    found = settled(cluster, "offline partitions")["offline partitions"]
    assert found["found"] == "pair-0 (broker 2 led last and is alive, but may lack records)"
    assert "start the" not in found["to_do"]
    assert "the replica that can have the most records: " in found["to_do"]
    assert "kafka-leader-election.sh --election-type unclean" in found["to_do"]
    if disk == "is put back":
        broker.stop()
        found = settled(cluster, "offline partitions", "fenced brokers")["offline partitions"]
        assert found["found"] == "pair-0 (only broker 2 may have all records)"
        shutil.rmtree(broker.data)
        old.rename(broker.data)
        broker.start()
    admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("pair", 0)])
    wait_until(lambda: set(findings(cluster)) <= {"full disks", NOT_PREFERRED}, "order")
    kept = ["both have it"] + ["broker 2 has it"] * (disk == "is put back")
    values = CommandLine(cluster.address).text("consume", "pair", "-e", "-f", "%v\\n")
    assert values.splitlines() == kept


def test_an_offline_replica_of_a_live_broker_is_named(cluster: Cluster, admin: Admin) -> None:
    create(admin, "pair", 2, 1)
    settled(cluster)
    write(cluster, "a record")
    cluster.brokers[2].stop()
    damage(cluster.brokers[2].data / "pair-0" / f"{0:020}.log", MAGIC)
    cluster.brokers[2].start()
    found = settled(cluster, "under-replicated partitions")["under-replicated partitions"]
    assert "pair-0 lacks broker 2 (its replica is offline" in found["found"]
    assert "docs/backup.md" in found["to_do"]
    # The steps of docs/backup.md.
    cluster.brokers[2].stop()
    (cluster.brokers[2].data / "recovery-point-offset-checkpoint").unlink()
    cluster.brokers[2].start()
    wait_until(lambda: "under-replicated partitions" not in findings(cluster), "both replicas")
    broker_1 = cluster.brokers[1].data / "pair-0" / f"{0:020}.log"
    broker_2 = cluster.brokers[2].data / "pair-0" / f"{0:020}.log"
    assert broker_1.read_bytes() == broker_2.read_bytes()


def test_a_broker_with_other_replicas_in_sync_is_unregistered_without_a_flag(
    cluster: Cluster, admin: Admin
) -> None:
    create(admin, "all", 3, 1, 2)
    wait_until(lambda: admin.describe_topics(["all"])["all"].partitions[0].leader, "a leader")
    cluster.brokers[3].stop()
    settled(cluster, "under-replicated partitions", "fenced brokers")
    CommandLine(cluster.address).text("cluster", "unregister", "3")


def test_the_last_of_the_brokers_with_all_records_needs_force(
    cluster: Cluster, admin: Admin
) -> None:
    """Broker 2 was unregistered before, so it would count as empty if it came back."""
    command_line = CommandLine(cluster.address)
    create(admin, "pair", 3, 2, least=2)
    settled(cluster)
    for broker in (2, 3):
        cluster.brokers[broker].stop()
    command_line.settled(
        lambda rows: [row["state"] for row in rows[1:]] == ["fenced", "fenced"],
        "cluster",
        "brokers",
    )
    command_line.text("cluster", "unregister", "2")
    said = command_line.refused("cluster", "unregister", "3")
    assert "only replica with all records of 1 partition: pair-0" in said


def test_topics_with_too_few_replicas_are_notices(cluster: Cluster, admin: Admin) -> None:
    """Replicas that a move adds count."""
    below = "topics with fewer replicas than min ISR"
    create(admin, "strict", 1, 2, least=3)
    create(admin, "alone", 1, least=2)
    found = settled(cluster, ONE_REPLICA, below)
    assert found[ONE_REPLICA]["found"] == "alone"
    assert found[below]["found"] == "alone (1 of 2), strict (2 of 3)"
    moves = {TopicPartition("alone", 0): [1, 2], TopicPartition("strict", 0): [1, 2, 3]}
    admin.alter_partition_reassignments(moves)
    settled(cluster)


def test_moves_throttles_and_leaders(cluster: Cluster, admin: Admin) -> None:
    create(admin, "t", 1, 2)
    create(admin, "led", 3, 2)
    settled(cluster)
    admin.alter_configs(
        {
            ConfigResource(ResourceType.BROKER, "1"): [AlterConfigOp(LEADER_RATE, "1")],
            ConfigResource(ResourceType.TOPIC, "t"): [AlterConfigOp(LEADER_REPLICAS, "0:1")],
        }
    )
    found = settled(cluster, "throttles left over")
    assert found["throttles left over"]["found"] == f"broker 1: {LEADER_RATE}=1, topic t"
    admin.alter_configs(
        {
            ConfigResource(ResourceType.BROKER, "1"): [AlterConfigOp(LEADER_RATE, op="delete")],
            ConfigResource(ResourceType.TOPIC, "t"): [AlterConfigOp(LEADER_REPLICAS, op="delete")],
        }
    )
    cluster.brokers[3].stop()
    settled(cluster, "under-replicated partitions", "fenced brokers")
    admin.alter_partition_reassignments({TopicPartition("t", 0): [1, 3]})
    found = settled(cluster, "under-replicated partitions", "fenced brokers", "stalled moves")
    assert found["stalled moves"]["found"] == "t-0 (broker 3 is not alive)"
    cluster.brokers[3].start()
    found = settled(cluster, NOT_PREFERRED)
    assert found[NOT_PREFERRED]["found"] == "led-0 (broker 2 for 3)"
    CommandLine(cluster.address).text("cluster", "rebalance", "--execute")
    settled(cluster)


def test_stray_folders_are_removed_when_the_other_copies_are_whole(
    cluster: Cluster, admin: Admin
) -> None:
    """Both partitions move away, and one topic is deleted, while broker 2 is down."""
    command_line = CommandLine(cluster.address)
    data = cluster.brokers[2].data
    for topic in ("moves", "waits", "goes"):
        create(admin, topic, 1, 2)
    settled(cluster)
    cluster.brokers[2].stop()
    places = [TopicPartition("moves", 0), TopicPartition("waits", 0)]
    admin.alter_partition_reassignments({place: [1, 3] for place in places})
    wait_until(lambda: not admin.list_partition_reassignments(), "the moves", CALL_S)
    admin.delete_topics(["goes"])
    cluster.brokers[2].start()
    cluster.brokers[3].stop()
    command_line.settled(lambda rows: rows[2]["state"] == "fenced", "cluster", "brokers")

    def shown(*flags: str) -> dict[str, tuple[bool, str]]:
        rows = command_line.json("cluster", "strays", str(data), *flags)
        return {row["topic"]: (row["removable"], row["reason"]) for row in rows}

    lacking = False, "not in sync: broker 3"
    reason = "the cluster has no such topic"
    found = {"moves": lacking, "waits": lacking, "goes": (False, reason)}
    assert shown("--execute") == found
    assert shown() == found, "the metadata may be lost: without the flag the folder stays"
    found["goes"] = (True, reason)
    assert shown("--unknown-topics", "--execute") == found
    assert shown() == {"moves": lacking, "waits": lacking}, "only what is removable is deleted"
    cluster.brokers[3].start()
    settled(cluster)
    whole = True, "whole on broker 1, 3"
    assert shown("--execute") == {"moves": whole, "waits": whole}
    assert shown() == {}
    said = command_line.refused("cluster", "strays", str(data.parent))
    assert "is no data directory" in said


def test_a_missing_member_of_etcd_is_a_notice(tmp_path: Path, etcd_program: str) -> None:
    settings = {"oncelog.etcd.prefix": "/members/", "broker.session.timeout.ms": "9000"}
    with (
        Etcd(tmp_path / "etcd", members=3) as etcd,
        Cluster(tmp_path, etcd, size=1, settings=settings) as cluster,
    ):
        settled(cluster)
        etcd.members[2].kill()
        found = settled(cluster, "etcd members")["etcd members"]
        assert found["state"] == "notice"
        assert found["found"].startswith(f"{etcd.urls[2]} cannot be reached")


def test_a_feature_below_the_level_of_all_brokers_is_a_notice(cluster: Cluster) -> None:
    settled(cluster)
    change = FeatureUpdateKey(TRANSACTION_VERSION, 1, upgrade_type=SAFE_DOWNGRADE)
    with Wire(cluster.brokers[1].address) as wire:
        response = wire.call(UpdateFeaturesRequest(feature_updates=[change]), 1)
    assert response.error_code == 0, response
    found = settled(cluster, "features not finalized")["features not finalized"]
    assert found["found"] == f"{TRANSACTION_VERSION} is 1, all brokers support 2"
    assert "upgrade" in found["to_do"]


def test_the_brokers_of_each_version_are_named_if_there_are_several(cluster: Cluster) -> None:
    rows = CommandLine(cluster.address).json("cluster", "brokers")
    assert [row["version"] for row in rows] == [__version__] * 3
    assert several_versions({1: "0.1", 2: "0.1"}) == []
    assert several_versions({}) == []
    assert several_versions({3: "0.1", 1: "0.2", 2: "0.1"}) == [
        "0.2 on broker 1",
        "0.1 on broker 2, 3",
    ]
