"""DescribeProducers and DescribeLogDirs show every field of their read models."""

from __future__ import annotations

from oncelog_protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsTopic,
)
from oncelog_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from oncelog_server.handlers import describe_log_dirs, describe_producers
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.nodes import ask, broker
from tests.server.log.driver import NOW_MS
from tests.server.partition.partitions import mark, partition, send


async def test_the_producers_of_a_partition_are_described() -> None:
    replica = partition(name=TopicPartition("t", 0))
    send(replica, 9, 0, count=3, epoch=2)
    mark(replica, 9, epoch=3, coordinator_epoch=5)
    closed = replica.size_bytes
    send(replica, 7, 4, count=2, epoch=1)
    async with broker() as services:
        services.partitions.add(replica)
        services.partitions.add_offline(TopicPartition("t", 1), "disk")
        request = DescribeProducersRequest(topics=[TopicRequest("t", [0, 1, 2])])
        response = await ask(describe_producers, services, request)
        found, offline, unknown = response.topics[0].partitions
        open_state, closed_state = found.active_producers
        assert open_state == ProducerState(
            7,
            1,
            last_sequence=5,
            last_timestamp=open_state.last_timestamp,
            coordinator_epoch=-1,
            current_txn_start_offset=4,
            held_records=2,
            held_bytes=replica.size_bytes - closed,
        )
        assert open_state.last_timestamp > 0
        assert closed_state == ProducerState(9, 3, last_timestamp=NOW_MS, coordinator_epoch=5)
        assert offline == PartitionResponse(1, 56, "disk")
        assert (unknown.partition_index, unknown.error_code) == (2, 3)


async def test_a_repeated_partition_is_described_once() -> None:
    replica = partition(name=TopicPartition("t", 0))
    for producer_id in range(300):
        send(replica, producer_id, 0)
    async with broker() as services:
        services.partitions.add(replica)
        topics = [TopicRequest("t", [0, 0]), TopicRequest("t", [1, 0])]
        response = await ask(describe_producers, services, DescribeProducersRequest(topics))
        (topic,) = response.topics
        found, unknown = topic.partitions
        assert [row.producer_id for row in found.active_producers] == list(range(300))
        assert (unknown.partition_index, unknown.error_code) == (1, 3)


async def test_named_partitions_of_the_data_directory_are_sorted() -> None:
    numbers = range(20)
    async with broker() as services:
        for number in reversed(numbers):
            services.partitions.add(partition(name=TopicPartition("t", number)))
        named = [DescribableLogDirTopic("t", [*reversed(numbers)])]
        response = await ask(describe_log_dirs, services, DescribeLogDirsRequest(named))
    (topic,) = response.results[0].topics
    assert [found.partition_index for found in topic.partitions] == [*numbers]


async def test_partitions_of_the_data_directory_are_described_with_their_sizes() -> None:
    replicas = [partition(name=TopicPartition("t", number)) for number in reversed(range(8))]
    replicas.append(partition(name=TopicPartition("u", 0)))
    send(replicas[0], 7, 0)
    replicas[-1].fail("disk")
    async with broker() as services:
        for replica in replicas:
            services.partitions.add(replica)
        all_topics = await ask(describe_log_dirs, services, DescribeLogDirsRequest(None))
        grown = DescribeLogDirsPartition(7, replicas[0].size_bytes)
        empty = [DescribeLogDirsPartition(number, 0) for number in range(7)]
        assert grown.partition_size > 0
        assert all_topics.results[0].topics == [
            DescribeLogDirsTopic("t", [grown, *reversed(empty)])
        ]
        named = [DescribableLogDirTopic("t", [7, *range(10)]), DescribableLogDirTopic("u", [0])]
        by_name = await ask(describe_log_dirs, services, DescribeLogDirsRequest(named))
        assert by_name.results[0].topics == [DescribeLogDirsTopic("t", [*empty, grown])]


async def test_the_lag_of_a_follower_is_described() -> None:
    lags = {0: 0, 1: 7, 2: -1}
    async with broker() as services:
        for number in lags:
            services.partitions.add(partition(name=TopicPartition("t", number)))
        services.follower_lag = lambda name: lags[name.partition]
        response = await ask(describe_log_dirs, services, DescribeLogDirsRequest(None))
    (topic,) = response.results[0].topics
    assert {found.partition_index: found.offset_lag for found in topic.partitions} == lags
