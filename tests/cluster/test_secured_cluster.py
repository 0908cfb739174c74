"""Three brokers with security on all connections do for clients what a cluster without security
does, and do nothing for clients that act as brokers."""

from __future__ import annotations

import asyncio

from confluent_kafka.admin import AdminClient

from oncelog.testing.wire import Wire
from oncelog_client import (
    Admin,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TransactionGroup,
    TransactionMember,
)
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallRequest,
    Operation,
)
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from oncelog_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.coordinator.routing import partition_for
from tests.cluster.reading import in_sync, values
from tests.cluster.secured import ADMIN, BROKER, CLIENT, SecuredCluster
from tests.harness.cluster import QUICK
from tests.harness.driving import last_stable_offset
from tests.harness.transacting import add_partitions
from tests.harness.waiting import wait_until
from tests.harness.writing import Identity, batch, find_coordinator, new_identity, produce

SINK, TOPIC, STATE = "sink", "out", TopicPartition("state", 0)
PARTITIONS = 3
SHARDS = int(QUICK["transaction.state.log.num.partitions"])
TIMEOUT_MS = 60_000


def ids(batch: int) -> list[str]:
    """Return a transactional id for each shard of `__transaction_state`."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < SHARDS:
        name = f"{SINK}/{batch}/{number}"
        found.setdefault(partition_for(name, SHARDS), name)
        number += 1
    return list(found.values())


async def write(cluster: SecuredCluster, admin: Admin, name: str, value: str) -> TransactionMember:
    """Write a record to each partition in a transaction of a group, and leave the commit to the
    group."""
    group = TransactionGroup(SINK, 1)
    made = await admin.init_producer(name, group, transaction_timeout_ms=TIMEOUT_MS)
    async with Producer(cluster.address, transactional_id=name, **cluster.security) as producer:
        await producer.adopt_transactions(made, group)
        await producer.begin_transaction()
        for partition in range(PARTITIONS):
            await producer.send(TOPIC, value.encode(), partition=partition)
        handed = await producer.hand_over_transaction()
    assert handed is not None
    return handed


async def read(cluster: SecuredCluster) -> list[str]:
    """Return the committed records of TOPIC, sorted."""
    address, login = cluster.address, cluster.librdkafka
    return await asyncio.to_thread(values, address, TOPIC, PARTITIONS, login)


async def test_group_commits_over_all_brokers_survive_the_loss_of_a_broker(
    secured_cluster: SecuredCluster,
) -> None:
    """Each commit needs replicas, markers at several leaders, and calls between the coordinators
    of the ids and of the group."""
    cluster = secured_cluster
    metadata = AdminClient(cluster.librdkafka)
    expected: list[str] = []
    async with Admin(
        cluster.address, default_api_timeout_ms=TIMEOUT_MS, **cluster.security
    ) as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3), NewTopic(STATE.topic, 1, 3)])
        parent = await admin.init_producer(
            SINK, TransactionGroup(SINK, 1), transaction_timeout_ms=TIMEOUT_MS
        )
        for number in range(2):
            names = ids(number)
            members = [await write(cluster, admin, name, name) for name in names]
            expected += names * PARTITIONS
            offsets = {STATE: OffsetAndMetadata(number + 1)}
            parent = await admin.commit_group(SINK, parent, members, offsets)
            assert await read(cluster) == sorted(expected)
            if number == 0:
                await asyncio.to_thread(wait_for_replicas, metadata)
                shard = partition_for(SINK, SHARDS)
                await asyncio.to_thread(cluster.fail_over, TRANSACTION_STATE, shard)
        found = await admin.list_group_offsets(SINK, [STATE], require_stable=True)
        assert found[STATE].offset == 2
    await asyncio.to_thread(wait_for_replicas, metadata)


def wait_for_replicas(metadata: AdminClient) -> None:
    def are_whole() -> bool:
        return in_sync(metadata, TOPIC, PARTITIONS) and in_sync(metadata, TRANSACTION_STATE, SHARDS)

    wait_until(are_whole, "all replicas are in sync")


def fetched_as_replica(wire: Wire, replica_id: int) -> PartitionData:
    """Fetch the first record of TOPIC as a follower does."""
    place = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000_000)
    topic = FetchTopic(topic=TOPIC, partitions=[place])
    request = FetchRequest(replica_id=replica_id, topics=[topic])
    data: PartitionData = wire.call(request, 12).responses[0].partitions[0]
    return data


def marker(wire: Wire, producer: Identity, *, committed: bool) -> int:
    """Return the error code of a marker in partition 0 of TOPIC."""
    written = WritableTxnMarker(
        producer.producer_id,
        producer.producer_epoch,
        committed,
        [WritableTxnMarkerTopic(TOPIC, [0])],
        0,
    )
    response = wire.call(WriteTxnMarkersRequest([written]), 1)
    code: int = response.markers[0].topics[0].partitions[0].error_code
    return code


def added_as_broker(wire: Wire, producer: Identity) -> int:
    """Return the error code of AddPartitionsToTxn in the form that only brokers send."""
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id or "",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[AddPartitionsToTxnTopic(TOPIC, [0])],
    )
    response = wire.call(AddPartitionsToTxnRequest(transactions=[transaction]), 4)
    code: int = response.error_code
    return code


def ended_as_coordinator(wire: Wire, producer: Identity) -> int:
    """Return the error code of a CoordinatorCall that aborts a producer's transaction."""
    call = CoordinatorCall(
        operation=Operation.END_OPEN, key=producer.transactional_id or "", group_id=SINK
    )
    response = wire.call(CoordinatorCallRequest(call), 0)
    code: int = response.error_code
    return code


def test_a_client_that_acts_as_a_broker_is_refused_and_changes_nothing(
    secured_cluster: SecuredCluster,
) -> None:
    cluster = secured_cluster
    admin = AdminClient(cluster.librdkafka)
    asyncio.run(create_topic(cluster))
    wait_until(lambda: in_sync(admin, TOPIC, PARTITIONS), "all replicas are in sync")
    leader = cluster.brokers[cluster.leader(TOPIC, 0)]
    coordinator = cluster.brokers[coordinator_of(cluster, "open")]
    follower = next(number for number in cluster.brokers if cluster.brokers[number] is not leader)
    with cluster.connect(coordinator) as wire:
        producer = new_identity(wire, "open")
        assert add_partitions(wire, producer, (TOPIC, 0)) == [ErrorCode.NONE]
    for port in (leader.port, leader.broker_port):
        with cluster.connect(leader, CLIENT, port) as wire:
            if port == leader.port:
                written = produce(wire, TOPIC, batch(producer, 0), producer=producer)
                assert written.error_code == ErrorCode.NONE
            data = fetched_as_replica(wire, follower)
            assert data.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert not data.records
            denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert marker(wire, producer, committed=True) == denied
            assert added_as_broker(wire, producer) == denied
            assert ended_as_coordinator(wire, producer) == denied
            assert last_stable_offset(wire, TOPIC) == 0
    # A super user may act as a broker, but not over the listener of clients.
    with cluster.connect(leader, ADMIN) as wire:
        assert ended_as_coordinator(wire, producer) == denied
    with cluster.connect(leader, BROKER, leader.broker_port) as wire:
        assert fetched_as_replica(wire, follower).error_code == ErrorCode.NONE
        assert ended_as_coordinator(wire, producer) != denied
    assert in_sync(admin, TOPIC, PARTITIONS)


async def create_topic(cluster: SecuredCluster) -> None:
    async with Admin(cluster.address, **cluster.security) as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])


def coordinator_of(cluster: SecuredCluster, name: str) -> int:
    """Return the broker that coordinates a transactional id."""
    with cluster.connect(cluster.brokers[1]) as wire:
        find_coordinator(wire, name)
    return cluster.leader(TRANSACTION_STATE, partition_for(name, SHARDS))
