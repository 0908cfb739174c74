"""The views of the broker and of the cluster for operators, made from the metadata image and the
disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker_services import BrokerServices
from oncelog_server.broker_views import BrokerViews
from oncelog_server.cluster.image import NO_LEADER
from oncelog_server.cluster.members import Registration
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.slices import at_its_end
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.broker import BrokerView
from oncelog_server.views.partitions import PartitionState
from tests.server.handlers.nodes import broker

ELSEWHERE = 77


def seen_from(services: BrokerServices, broker_id: int, directory: str = ".") -> BrokerViews:
    return BrokerViews(broker_id, services.metadata, services.partitions, directory)


async def test_the_view_of_a_broker_counts_the_contents_of_the_image() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("wide", 3), NewTopic("narrow")])
        services.partitions.add_offline(TopicPartition("wide", 1), "corrupt")
        expected = BrokerView(
            is_controller=True,
            is_draining=False,
            brokers=1,
            fenced=0,
            topics=2,
            partitions=4,
            without_leader=1,
            imbalanced=0,
        )
        assert at_its_end(services.views.broker()) == expected
        elsewhere = seen_from(services, ELSEWHERE)
        assert not at_its_end(elsewhere.broker()).is_controller
        assert at_its_end(elsewhere.broker()).without_leader == 0, (
            "only the leader knows that its disk failed"
        )


async def test_a_broker_that_stops_and_one_that_is_not_alive() -> None:
    async with broker() as services:
        image = services.metadata.image
        gone = Registration(7, 5, 5, "directory", (), None, 0, "", False, ())
        services.metadata.follower.image = msgspec.structs.replace(
            image,
            draining={services.broker_id: 9},
            registrations={**image.registrations, 7: gone},
        )
        view = at_its_end(services.views.broker())
        assert (view.is_draining, view.brokers, view.fenced) == (True, 1, 1)
        assert not at_its_end(seen_from(services, ELSEWHERE).broker()).is_draining


async def test_partitions_are_counted_in_steps() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("wide", 30)])
        assert sum(1 for _ in services.views.broker()) == 30


async def test_a_partition_with_an_unusable_log_has_no_leader_and_an_offline_replica() -> None:
    async with broker() as services:
        here = services.broker_id
        await services.metadata.create_topics([NewTopic("wide", 3)])
        services.partitions.add_offline(TopicPartition("wide", 1), "corrupt")
        topic = services.metadata.image.topics["wide"]
        epoch = topic.partitions[1].leader_epoch
        served, broken, last = services.views.states(topic)
        assert served == PartitionState(ErrorCode.NONE, 0, here, epoch, (here,), (here,), ())
        assert broken == PartitionState(
            ErrorCode.LEADER_NOT_AVAILABLE, 1, NO_LEADER, epoch, (here,), (here,), (here,)
        )
        assert list(services.views.states(topic, 2)) == [last]
        assert services.views.leader_of("wide", topic.partitions[1]) == NO_LEADER
        assert services.views.leader_of("wide", topic.partitions[2]) == here


async def test_replicas_of_a_broker_that_is_not_alive_are_offline() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("t")])
        topic = services.metadata.image.topics["t"]
        (partition,) = topic.partitions
        away = replace(partition, replicas=(ELSEWHERE,), leader=ELSEWHERE)
        moved = replace(topic, partitions=(away,))
        (state,) = services.views.states(moved)
        assert (state.leader, state.offline_replicas) == (NO_LEADER, (ELSEWHERE,))


async def test_a_replica_that_its_broker_cannot_serve_is_offline_for_all_brokers() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("t", 2)])
        image, here = services.metadata.image, services.broker_id
        topic = image.topics["t"]
        services.metadata.follower.image = replace(image, failed={(here, topic.id, 1): 9})
        served, failed = seen_from(services, ELSEWHERE).states(topic)
        assert (served.offline_replicas, failed.offline_replicas) == ((), (here,))


async def test_the_log_dir_has_the_space_of_its_disk(tmp_path: Path) -> None:
    async with broker() as services:
        found = seen_from(services, 0, str(tmp_path)).log_dir()
        assert (found.path, found.total_bytes) == (str(tmp_path), shutil.disk_usage("/").total)
        assert 0 <= found.usable_bytes <= found.total_bytes
        missing = seen_from(services, 0, str(tmp_path / "none")).log_dir()
        assert (missing.total_bytes, missing.usable_bytes) == (-1, -1)
