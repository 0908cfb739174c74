"""The leader that gets the marker of a partition, according to the newest metadata image."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from oncelog_server.cluster.image import ClusterImage, PartitionImage, TopicImage
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.marker_delivery import ImageLeaders, MarkerSettled
from oncelog_server.transaction.markers import MarkerWork


class Sender:
    is_local = False

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None: ...


def partition(index: int, leader: int) -> PartitionImage:
    return PartitionImage(bytes(16), index, (0, 1), (0, 1), leader, 3, 1)


LOCAL, OTHER = Sender(), Sender()
IMAGE = ClusterImage(
    topics={
        "t": TopicImage(
            "t", bytes(16), "", {}, tuple(partition(n, n - 1) for n in range(4)), revision=1
        )
    }
)
LEADERS = ImageLeaders(0, SimpleNamespace(image=IMAGE), LOCAL, {1: OTHER}.get)


@pytest.mark.parametrize(
    ("topic", "index", "sender", "is_gone"),
    [
        pytest.param("t", 0, None, False, id="without a leader"),
        pytest.param("t", 1, LOCAL, False, id="here"),
        pytest.param("t", 2, OTHER, False, id="on another broker"),
        pytest.param("t", 3, None, False, id="on a broker that is not alive"),
        pytest.param("t", 4, None, True, id="beyond the topic"),
        pytest.param("deleted", 0, None, True, id="of a deleted topic"),
    ],
)
def test_the_leader_of_a_partition_gets_its_marker(
    topic: str, index: int, sender: Sender | None, is_gone: bool
) -> None:
    name = TopicPartition(topic, index)
    assert LEADERS.marker_sender(name) is sender
    assert LEADERS.is_gone(name) is is_gone
