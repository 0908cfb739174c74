"""A broker that stops gives its partitions to other replicas first (Kafka's controlled shutdown).

The broker writes `draining/<id>`. The controller then elects other leaders for the broker's
partitions, and takes the broker out of every ISR. A partition that no other replica can lead stays
with the broker (`partition_change.py`). No leader adds the broker to an ISR (`isr_changes.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_change import Candidates
from oncelog_server.cluster.store import Created, Put, Write
from oncelog_server.topic_partition import TopicPartition


def begin_draining(broker_id: int, broker_epoch: int, lease_id: int) -> Write:
    """Return the write by which a broker drains. The key ends with the registration: both have the
    lease `lease_id`."""
    record = records.encode(records.DrainingRecord())
    return Write(
        (Created(records.broker_key(broker_id), broker_epoch),),
        (Put(records.draining_key(broker_id), record, lease_id),),
    )


def led_by(image: ClusterImage, broker_id: int) -> list[TopicPartition]:
    """Return the partitions that a broker leads."""
    return [
        TopicPartition(topic.name, partition.partition)
        for topic in image.topics.values()
        for partition in topic.partitions
        if partition.leader == broker_id
    ]


def still_to_move(
    image: ClusterImage, broker_id: int, led: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Return those of `led` that the broker still leads, although another replica is alive and does
    not drain. The other replica becomes the leader as soon as it is in the ISR."""
    return [name for name in led if _is_to_move(image, broker_id, name)]


def _is_to_move(image: ClusterImage, broker_id: int, name: TopicPartition) -> bool:
    partition = image.partition(*name)
    if partition is None or partition.leader != broker_id:
        return False
    candidates = Candidates(image, partition)
    return any(map(candidates.serves, partition.replicas))
