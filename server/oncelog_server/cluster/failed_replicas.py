"""The replicas that a broker cannot serve at the moment: the disk has failed or is full, or the log
is damaged. The controller elects other leaders for their partitions and takes them out of the ISR,
and no leader adds them to it (KIP-112)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.batches import Batches
from oncelog_server.cluster.image import ClusterImage, PartitionImage
from oncelog_server.cluster.members import Replica
from oncelog_server.cluster.partition_change import Candidates, ElectionRules
from oncelog_server.cluster.store import Compare, Created, Delete, Put, Write
from oncelog_server.topic_partition import TopicPartition

# Of a reason in the metadata store.
_MAX_REASON: Final = 200


class Unserved(msgspec.Struct, frozen=True):
    """The replicas that a broker cannot serve, each with the reason. `offline` serve nothing.
    `refusing` take no append, but can be read."""

    offline: Mapping[TopicPartition, str] = {}
    refusing: Mapping[TopicPartition, str] = {}


def failed_replica_writes(
    image: ClusterImage,
    rules: ElectionRules,
    broker_id: int,
    broker_epoch: int,
    lease_id: int,
    unserved: Unserved,
) -> list[Write]:
    """Return the writes after which the store has `failed/` keys for just the replicas that a
    broker cannot serve. The keys end with the registration: they have the lease `lease_id`, and
    each write compares the registration.

    A replica that only refuses appends is listed if the rest of the ISR has at least min ISR
    members that can serve. Otherwise readers would lose their leader, and producers would win
    nothing. A condition of the write is that these other members are still not listed, because the
    disks of a cluster may become full at the same moment. A partition that is unknown, or has no
    replica on the broker, is not listed.
    """
    batches: Batches[Replica] = Batches([Created(records.broker_key(broker_id), broker_epoch)])
    wanted: dict[Replica, str] = {}
    conditions: dict[Replica, list[Compare]] = {}
    for name, reason in {**unserved.refusing, **unserved.offline}.items():
        topic, partition = image.topics.get(name.topic), image.partition(*name)
        if topic is None or partition is None or broker_id not in partition.replicas:
            continue
        replica = broker_id, topic.id, name.partition
        if name in unserved.offline or replica in image.failed:
            wanted[replica] = reason
            continue
        others = _other_members(image, partition, broker_id)
        if len(others) >= max(rules.min_isr(topic, partition), 1):
            wanted[replica] = reason
            conditions[replica] = [
                Created(_key((other, topic.id, name.partition)), 0) for other in others
            ]
    for replica, reason in wanted.items():
        if replica not in image.failed:
            value = records.encode(records.FailedRecord(reason[:_MAX_REASON]))
            compare = conditions.get(replica, ())
            batches.add(replica, compare, Put(_key(replica), value, lease_id))
    for replica in image.failed:
        if replica[0] == broker_id and replica not in wanted:
            batches.add(replica, (), Delete(_key(replica)))
    return batches.writes()


def _other_members(image: ClusterImage, partition: PartitionImage, broker_id: int) -> list[int]:
    """Return the other members of the ISR that can serve the partition."""
    candidates = Candidates(image, partition)
    return [id for id in partition.isr if id != broker_id and candidates.serves(id)]


def _key(replica: Replica) -> str:
    broker_id, topic_id, partition = replica
    return records.failed_key(broker_id, uuid_to_string(topic_id), partition)
