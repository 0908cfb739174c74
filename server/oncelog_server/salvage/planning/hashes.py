"""Finds out from the coordinators' folders which hash a cluster uses for its ids
(`ClusterRecord.absolute_hash`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from oncelog_server.coordinator.routing import kafkas_partition_for, partition_for
from oncelog_server.salvage.planning.coordinator_ids import COORDINATOR_TOPICS
from oncelog_server.salvage.planning.evidence import FolderFacts


def uses_absolute_hash(folders: Sequence[FolderFacts]) -> bool:
    """Return True if more ids are in the partition of Kafka's hash than in that of oncelog's. The
    partition of an id depends on the hash only if the hash is negative."""
    votes: Counter[bool] = Counter()
    for topic in COORDINATOR_TOPICS:
        own = [folder for folder in folders if folder.topic == topic]
        count = max((folder.partition for folder in own), default=-1) + 1
        for folder in own:
            for id_ in folder.ids:
                kafkas, ours = kafkas_partition_for(id_, count), partition_for(id_, count)
                if kafkas != ours:
                    votes[folder.partition == kafkas] += folder.partition in (kafkas, ours)
    return votes[True] > votes[False]
