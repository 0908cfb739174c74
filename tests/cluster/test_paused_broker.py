"""A broker that was paused for longer than its session does not act on what it remembers."""

from __future__ import annotations

import os
import signal

from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.coordinator.routing import partition_for
from tests.cluster.reading import CALL_S, metadata_of, values
from tests.harness.cluster import QUICK, Cluster
from tests.harness.transacting import add_partitions
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    end_transaction,
    find_coordinator,
    new_identity,
    produce,
    records,
)

BY_NAME = 12
LATEST = -1
# The tests wait for the end of a session.
SESSION_MS = 2_000
ID = "p"


def test_requests_that_wait_in_the_sockets_of_a_paused_leader_are_refused(cluster: Cluster) -> None:
    """The requests are sent while the process is stopped, so that it serves them before any of its
    timers."""
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.create_topics([NewTopic("t", 1, 3)])["t"].result(CALL_S)
    paused = leader(admin)
    with Wire(cluster.brokers[paused].address) as wire:
        assert produce(wire, "t", build_batch(records(1, b"before"))).error_code == ErrorCode.NONE
        os.kill(cluster.brokers[paused].pid, signal.SIGSTOP)
        wire.send(
            ProduceRequest(
                acks=1,
                timeout_ms=10_000,
                topic_data=[
                    TopicProduceData(
                        name="t",
                        partition_data=[PartitionProduceData(0, build_batch(records(1, b"lost")))],
                    )
                ],
            ),
            BY_NAME,
        )
        asked = [ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=LATEST)])]
        wire.send(ListOffsetsRequest(replica_id=-1, topics=asked), 7)
        others = [id_ for id_ in cluster.brokers if id_ != paused]
        bootstrap = ",".join(cluster.brokers[id_].address for id_ in others)
        other = AdminClient({"bootstrap.servers": bootstrap})
        wait_until(lambda: leader(other) in others, "another broker leads", CALL_S)
        os.kill(cluster.brokers[paused].pid, signal.SIGCONT)
        produced = wire.answer().responses[0].partition_responses[0]
        listed = wire.answer().topics[0].partitions[0]
    codes = (ErrorCode(produced.error_code), ErrorCode(listed.error_code))
    assert codes == (ErrorCode.NOT_LEADER_OR_FOLLOWER,) * 2
    assert values(bootstrap, "t", 1) == ["before"]


def test_z14_an_end_txn_that_waits_in_the_socket_of_a_paused_coordinator_is_refused(
    cluster: Cluster,
) -> None:
    """The client has not heard of the next coordinator, which then commits the transaction."""
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.create_topics([NewTopic("t", 1, 3)])["t"].result(CALL_S)
    with Wire(cluster.brokers[1].address) as wire:
        find_coordinator(wire, ID)
    paused = coordinator(admin)
    with Wire(cluster.brokers[paused].address) as wire:
        producer = new_identity(wire, ID)
        assert add_partitions(wire, producer, ("t", 0)) == [ErrorCode.NONE]
        end = EndTxnRequest(ID, producer.producer_id, producer.producer_epoch, committed=True)
        os.kill(cluster.brokers[paused].pid, signal.SIGSTOP)
        wire.send(end, 4)
        others = [id_ for id_ in cluster.brokers if id_ != paused]
        other = AdminClient(
            {"bootstrap.servers": ",".join(cluster.brokers[id_].address for id_ in others)}
        )
        wait_until(lambda: coordinator(other) in others, "another broker coordinates", CALL_S)
        os.kill(cluster.brokers[paused].pid, signal.SIGCONT)
        assert wire.answer().error_code == ErrorCode.NOT_COORDINATOR
    with Wire(cluster.brokers[coordinator(other)].address) as wire:
        response = end_transaction(wire, producer, commit=True, version=4)
    assert response.error_code == ErrorCode.NONE


def coordinator(admin: AdminClient) -> int:
    """Return the broker that coordinates the id, -1 if none does."""
    topic = metadata_of(admin, TRANSACTION_STATE).topics[TRANSACTION_STATE]
    shards = int(QUICK["transaction.state.log.num.partitions"])
    return int(topic.partitions[partition_for(ID, shards)].leader)


def leader(admin: AdminClient) -> int:
    topic = metadata_of(admin, "t").topics.get("t")
    return -1 if topic is None or not topic.partitions else int(topic.partitions[0].leader)
