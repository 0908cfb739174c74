"""The replicas that a broker cannot serve, because its disk has failed or their logs are damaged.
The controller elects other leaders for their partitions, and no leader adds them to an ISR
(KIP-112)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.batches import Batches
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.members import Replica
from oncelog_server.cluster.store import Created, Delete, Put, Write
from oncelog_server.topic_partition import TopicPartition

# Of a reason in the metadata store.
_MAX_REASON: Final = 200


def failed_replica_writes(
    image: ClusterImage,
    broker_id: int,
    broker_epoch: int,
    lease_id: int,
    offline: Mapping[TopicPartition, str],
) -> list[Write]:
    """Return the writes after which the store has `failed/` keys for just the offline replicas of a
    broker. `offline` has the reasons. The keys end with the registration: they have the lease
    `lease_id`, and each write compares the registration. A partition that is unknown, or has no
    replica on the broker, gets no key."""
    batches: Batches[Replica] = Batches([Created(records.broker_key(broker_id), broker_epoch)])
    wanted: set[Replica] = set()
    for name, reason in offline.items():
        topic, partition = image.topics.get(name.topic), image.partition(*name)
        if topic is None or partition is None or broker_id not in partition.replicas:
            continue
        replica = broker_id, topic.id, name.partition
        wanted.add(replica)
        if replica not in image.failed:
            value = records.encode(records.FailedRecord(reason[:_MAX_REASON]))
            batches.add(replica, (), Put(_key(replica), value, lease_id))
    for replica in image.failed:
        if replica[0] == broker_id and replica not in wanted:
            batches.add(replica, (), Delete(_key(replica)))
    return batches.writes()


def _key(replica: Replica) -> str:
    broker_id, topic_id, partition = replica
    return records.failed_key(broker_id, uuid_to_string(topic_id), partition)
