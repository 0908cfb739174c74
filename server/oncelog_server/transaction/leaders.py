"""The leaders of partitions, for the senders of markers: the newest image, and this broker's own
partitions."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_server.cluster.image import ClusterImage
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.marker_delivery import MarkerSender


class ImageLeaders:
    """`remote(broker_id)` gives the sender for another broker, or None if it is not alive."""

    def __init__(
        self,
        broker_id: int,
        image: Callable[[], ClusterImage],
        local: MarkerSender,
        remote: Callable[[int], MarkerSender | None],
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._local = local
        self._remote = remote

    def marker_sender(self, partition: TopicPartition) -> MarkerSender | None:
        found = self._image().partition(*partition)
        if found is None or found.leader < 0:
            return None
        if found.leader == self._broker_id:
            return self._local
        return self._remote(found.leader)

    def is_gone(self, partition: TopicPartition) -> bool:
        """The image follows the store, so a topic that it does not know has been deleted: a
        transaction cannot have begun in a topic before the image showed it."""
        return self._image().partition(*partition) is None
