"""The files of all partitions on a simulated disk, for the checkers."""

from __future__ import annotations

from oncelog_server.broker import Broker
from tests.simulation.checking.logs import PartitionLog, TopicPartition, partitions_in
from tests.simulation.disk import SimDisk


def logs_on(disk: SimDisk, broker: Broker | None = None) -> dict[TopicPartition, PartitionLog]:
    """Return the logs, without damaged snapshots. With `broker`, they have the high watermarks and
    log start offsets of this running broker."""
    image = disk.image()
    logs = partitions_in({path: data for path, data in image.items() if path not in disk.damaged})
    if broker is not None:
        for partition in broker.partitions:
            name = (partition.topic_partition.topic, partition.topic_partition.partition)
            if name in logs:
                logs[name].high_watermark = partition.high_watermark
                logs[name].log_start = partition.log_start_offset
    return logs
