"""What an operator does with the brokers of a cluster: move leaders back, elect an unclean leader,
unregister a broker."""

from __future__ import annotations

import pytest

from oncelog_client import NewTopic, TopicPartition
from oncelog_client.admin import ElectionType
from oncelog_client.errors import KafkaError
from oncelog_client.sync import Admin
from oncelog_protocol.errors import ErrorCode
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until

CALL_S = 30.0
# The first broker of each is the preferred leader. `u` has two replicas.
ASSIGNMENTS = {"t": {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}, "u": {0: [3, 2]}}
PLACES = [TopicPartition("t", number) for number in range(3)]
ALONE = TopicPartition("u", 0)
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def test_leaders_are_elected_and_a_lost_broker_is_forgotten(cluster: Cluster) -> None:
    with Admin(cluster.address) as admin:
        admin.create_topics(
            [
                NewTopic(name, assignments=rows, configs={"min.insync.replicas": "1"})
                for name, rows in ASSIGNMENTS.items()
            ]
        )
        wait_until(lambda: leaders(admin) == {0: 1, 1: 2, 2: 3}, "the preferred leaders", CALL_S)
        codes = {code_of(error) for error in admin.elect_leaders(PREFERRED, PLACES).values()}
        assert codes == {ErrorCode.ELECTION_NOT_NEEDED}

        cluster.brokers[2].stop()
        assert "leaders moved" in cluster.brokers[2].log.read_text()
        wait_until(lambda: leaders(admin) == {0: 1, 1: 3, 2: 3}, "the next leader", CALL_S)
        refused = admin.elect_leaders(PREFERRED, [PLACES[1]])[PLACES[1]]
        assert code_of(refused) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        cluster.brokers[2].start()
        wait_until(lambda: in_sync(admin) == {1, 2, 3}, "broker 2 is in sync", CALL_S)
        assert admin.elect_leaders(PREFERRED) == {PLACES[1]: None}
        wait_until(lambda: leaders(admin) == {0: 1, 1: 2, 2: 3}, "the preferred leaders", CALL_S)

        # Broker 2 leaves the ISR of `u`, and then the last member dies.
        cluster.brokers[2].stop()
        cluster.brokers[3].kill()
        wait_until(lambda: fenced(admin) == {2, 3}, "both are fenced", CALL_S)
        cluster.brokers[2].start()
        wait_until(lambda: fenced(admin) == {3}, "broker 2 is back", CALL_S)
        assert code_of(admin.elect_leaders(PREFERRED, [ALONE])[ALONE]) == (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        )
        assert admin.elect_leaders(UNCLEAN, [ALONE]) == {ALONE: None}
        wait_until(lambda: leader(admin, ALONE) == 2, "an unclean leader", CALL_S)

        with pytest.raises(KafkaError, match="is alive"):
            admin.unregister_broker(2)
        admin.unregister_broker(3)
        wait_until(lambda: fenced(admin) == set(), "broker 3 is forgotten", CALL_S)


def leaders(admin: Admin) -> dict[int, int | None]:
    found = admin.describe_topics(["t"])["t"].partitions
    return {partition.partition: partition.leader for partition in found}


def leader(admin: Admin, place: TopicPartition) -> int | None:
    return admin.describe_topics([place.topic])[place.topic].partitions[place.partition].leader


def in_sync(admin: Admin) -> set[int]:
    """Return the brokers that are in every ISR of `t`."""
    found = admin.describe_topics(["t"])["t"].partitions
    return set.intersection(*(set(partition.in_sync_replicas) for partition in found))


def fenced(admin: Admin) -> set[int]:
    found = admin.describe_cluster(include_fenced_brokers=True).fenced
    return {node.node_id for node in found}


def code_of(error: KafkaError | None) -> ErrorCode:
    return ErrorCode.NONE if error is None else error.code
