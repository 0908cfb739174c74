"""An unclean election takes a replica that may be empty only if no other is alive: after the
replacement of a disk, no record is lost that another replica has."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import structs

from oncelog_server.cluster import records
from oncelog_server.cluster.controller import elect_leaders
from oncelog_server.cluster.image import NO_LEADER, PartitionImage
from oncelog_server.cluster.isr_changes import IsrChange, Leader, isr_writes
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.reassignment_changes import PartitionTarget, reassign_partitions
from oncelog_server.cluster.requested_elections import ElectionType, requested_elections
from oncelog_server.cluster.topics import NewTopic, create_topic
from oncelog_server.settings.model import Settings
from oncelog_server.topic_partition import TopicPartition
from tests.server.cluster.clusters import Cluster

RULES = ElectionRules(min_insync_replicas=1)
Directories = tuple[str | None, ...]
OLD: Directories = ("directory-1", "directory-2", "directory-3")


def cluster_of(
    *names: str, replicas: tuple[int, ...] = (1, 2, 3), own: Mapping[str, str] | None = None
) -> Cluster:
    """Return a cluster of four brokers with topics of one partition. `own`: their settings."""
    cluster = Cluster((1, 2, 3, 4))
    create(cluster, *names or ("t",), replicas=replicas, own=own)
    return cluster


def create(
    cluster: Cluster,
    *names: str,
    replicas: tuple[int, ...],
    own: Mapping[str, str] | None = None,
) -> None:
    for name in names:
        new = NewTopic(name, assignments=((0, replicas),), settings=own or {})
        assert cluster.apply(create_topic(cluster.image, Settings(), new, cluster.new_id())[1])


def decide(cluster: Cluster) -> None:
    """Let the controller decide, once."""
    assert cluster.apply(elect_leaders(cluster.image, RULES))
    assert elect_leaders(cluster.image, RULES) == []


def led_by_2(*names: str, own: Mapping[str, str] | None = None) -> Cluster:
    """Return a cluster in which broker 2 is the only replica in sync. Brokers 1 and 3 have returned
    from a loss of power, with what they had."""
    cluster = cluster_of(*names, own=own)
    for broker in (1, 3):
        cluster.stop(broker)
        decide(cluster)
    for broker in (1, 3):
        cluster.register(broker)
        decide(cluster)
    for name in names or ("t",):
        assert (cluster.partition(name).leader, cluster.partition(name).isr) == (2, (2,))
    return cluster


def come_back(
    cluster: Cluster, broker: int, *directories: str, boot: str = "", is_seen: bool = True
) -> None:
    """Start a stopped broker with the first directory, then again with each of the others. With
    `is_seen`, the controller sees each end before the return."""
    for number, directory in enumerate(directories):
        if number:
            cluster.stop(broker)
        if is_seen:
            decide(cluster)
        cluster.register(broker, directory=directory, boot=boot)
    decide(cluster)


def elected(cluster: Cluster, name: str = "t") -> int:
    """Return the leader of an unclean election that an operator requests."""
    wanted = [TopicPartition(name, 0)]
    unclean = ElectionType.UNCLEAN
    assert cluster.apply(requested_elections(cluster.image, RULES, unclean, wanted).writes)
    return cluster.partition(name).leader


def join(cluster: Cluster, leader: int, *isr: int, name: str = "t") -> PartitionImage:
    """Let the leader change the ISR."""
    partition = cluster.partition(name)
    epochs = {id: broker.epoch for id, broker in cluster.image.brokers.items()}
    change = IsrChange(
        partition.topic_id, 0, partition.leader_epoch, partition.partition_epoch, isr, epochs
    )
    found = isr_writes(cluster.image, RULES, Leader(leader, epochs[leader]), [change])
    assert cluster.apply([batch.write for batch in found.batches])
    assert cluster.partition(name).isr == isr
    return cluster.partition(name)


@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize(
    ("directories", "dead", "leader"),
    [
        # After a loss of power the last leader has the most records.
        (["directory-2"], (), 2),
        (["new"], (), 1),
        (["new"], (1,), 3),
        (["new"], (1, 3), 2),
        # It is killed before it has fetched anything.
        (["new", "new"], (), 1),
        (["new", "newer"], (), 1),
        # The old disk is put back.
        (["new", "directory-2"], (), 2),
    ],
)
def test_a_last_leader_with_a_new_directory_has_no_record(
    directories: list[str], dead: tuple[int, ...], leader: int, is_seen: bool
) -> None:
    cluster = led_by_2()
    cluster.stop(2, *dead)
    come_back(cluster, 2, *directories, is_seen=is_seen)
    found = cluster.partition("t")
    assert (found.leader, found.elr, found.last_known_elr) == (NO_LEADER, (), (2,))
    assert found.directories == OLD
    assert elected(cluster) == leader


def test_a_restart_in_the_same_boot_does_not_fill_the_new_directory() -> None:
    """The second registration has kept everything of the first, which was nothing."""
    cluster = led_by_2()
    cluster.stop(2)
    come_back(cluster, 2, "new", "new", boot="boot")
    assert cluster.image.brokers[2].kept_epochs
    assert elected(cluster) == 1


def test_a_replica_with_records_is_preferred_to_any_other_with_a_new_directory() -> None:
    """The last leader stays dead. The first replica in the order of the replicas is empty."""
    cluster = led_by_2()
    cluster.stop(1, 2)
    come_back(cluster, 1, "new")
    assert elected(cluster) == 3
    cluster = led_by_2()
    cluster.stop(1, 2, 3)
    for broker in (1, 2):
        come_back(cluster, broker, "new")
    assert elected(cluster) == 2, "both are empty"


def test_a_replica_that_has_fetched_everything_again_has_records() -> None:
    """Broker 2 has caught up with one of its partitions before its second stop."""
    cluster = led_by_2("done", "waits")
    cluster.stop(2)
    come_back(cluster, 2, "new")
    assert elected(cluster, "done") == 1
    assert join(cluster, 1, 1, 2, name="done").directories == ("directory-1", "new", "directory-3")
    cluster.stop(1)
    decide(cluster)
    assert cluster.partition("done").leader == 2
    cluster.register(1)
    cluster.stop(2)
    come_back(cluster, 2, "new")
    assert elected(cluster, "done") == 2
    assert elected(cluster, "waits") == 1


def test_an_election_of_the_empty_replica_begins_a_new_history() -> None:
    """No other replica was alive. What broker 2 has written since then is in its new directory."""
    cluster = led_by_2()
    cluster.stop(1, 2, 3)
    come_back(cluster, 2, "new")
    assert elected(cluster) == 2
    assert cluster.partition("t").directories == ("directory-1", "new", "directory-3")
    cluster.register(1)
    cluster.stop(2)
    come_back(cluster, 2, "new")
    assert elected(cluster) == 2


def test_a_topic_that_allows_unclean_elections_prefers_a_replica_with_records() -> None:
    cluster = led_by_2(own={"unclean.leader.election.enable": "true"})
    cluster.stop(1, 2)
    come_back(cluster, 2, "new", is_seen=False)
    assert cluster.partition("t").leader == 3


def test_a_new_partition_has_a_leader_although_all_its_replicas_are_empty() -> None:
    """Broker 1 was down at the creation and had no chance to fetch."""
    cluster = Cluster((1, 2, 3, 4))
    cluster.stop(1)
    create(cluster, "t", replicas=(1, 2, 3))
    found = cluster.partition("t")
    assert (found.leader, found.isr) == (2, (2, 3))
    assert found.directories == (None, "directory-2", "directory-3")
    join(cluster, 2, 2)
    cluster.stop(2)
    cluster.register(1)
    decide(cluster)
    assert elected(cluster) == 3
    cluster.stop(3)
    decide(cluster)
    assert elected(cluster) == 1, "no other replica is alive"


def test_an_added_replica_has_records_when_it_was_in_sync() -> None:
    cluster = cluster_of(replicas=(1, 2))
    target = PartitionTarget("t", 0, (3, 4))
    assert cluster.apply(reassign_partitions(cluster.image, RULES, [target])[1])
    found = cluster.partition("t")
    assert (found.replicas, found.adding) == ((3, 4, 1, 2), (3, 4))
    assert found.directories == (None, None, "directory-1", "directory-2")
    found = join(cluster, 1, 1, 4)
    assert found.directories == (None, "directory-4", "directory-1", "directory-2")
    cluster.stop(1, 2, 4)
    for broker in (1, 2):
        come_back(cluster, broker, "new")
    cluster.register(4)
    decide(cluster)
    assert elected(cluster) == 4, "the others are empty"


def test_an_added_replica_comes_after_the_others_with_records() -> None:
    """Its election would complete the reassignment, and the others would delete their logs."""
    cluster = cluster_of(replicas=(1, 2))
    target = PartitionTarget("t", 0, (3, 4))
    assert cluster.apply(reassign_partitions(cluster.image, RULES, [target])[1])
    join(cluster, 1, 1, 4)
    cluster.stop(1, 2, 4)
    for broker in (2, 4):
        come_back(cluster, broker, f"directory-{broker}")
    assert elected(cluster) == 2


def test_the_only_replica_has_no_directory_in_its_record() -> None:
    """It always leads, whatever its directory is. A cluster of one broker writes no more bytes."""
    cluster = cluster_of(replicas=(2,))
    assert b"directories" not in cluster.entries[key(cluster)].value
    cluster.stop(2)
    come_back(cluster, 2, "new")
    assert cluster.partition("t").leader == 2
    assert b"directories" not in cluster.entries[key(cluster)].value


def key(cluster: Cluster) -> str:
    return records.partition_key(cluster.image.topics["t"].id_text, 0)


def test_a_record_of_an_earlier_version_is_completed_when_the_isr_changes() -> None:
    """Until then, the last leader is preferred, as by the earlier version."""
    cluster = led_by_2()
    old = records.decode(records.PartitionRecord, cluster.entries[key(cluster)].value)
    cluster.put_partition("t", structs.replace(old, directories=()))
    assert cluster.partition("t").directories == ()
    assert join(cluster, 2, 2, 3).directories == ("", "directory-2", "directory-3")
    cluster.put_partition("t", structs.replace(old, directories=()))
    cluster.stop(2)
    come_back(cluster, 2, "new")
    assert cluster.partition("t").directories == ()
    assert elected(cluster) == 2


def test_an_added_replica_of_an_earlier_version_may_be_empty() -> None:
    cluster = cluster_of(replicas=(1, 2))
    old = records.PartitionRecord(
        (4, 1, 2),
        (),
        NO_LEADER,
        7,
        adding=(4,),
        last_known_elr=(2,),
        directories=("", "directory-1", "directory-2"),
    )
    cluster.put_partition("t", old)
    cluster.stop(1, 2)
    come_back(cluster, 1, "new")
    assert elected(cluster) == 1, "its election deletes no log of another replica"


def test_a_directory_without_an_id_may_be_any() -> None:
    """Kafka before 3.7 wrote no directory.id."""
    cluster = led_by_2()
    cluster.stop(2)
    decide(cluster)
    cluster.register(2)
    nameless = structs.replace(
        records.decode(records.BrokerRecord, cluster.entries[records.broker_key(2)].value),
        directory_id="",
    )
    cluster.stop(2)
    cluster.put(records.broker_key(2), records.encode(nameless))
    decide(cluster)
    assert elected(cluster) == 2
