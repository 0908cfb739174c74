"""The brokers of a data directory that a start leaves out (`oncelog.brokers`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from oncelog_server.cluster.image import ClusterImage

# Maximum number of partitions in the warning.
NAMED: Final = 5


class MissingBrokers(msgspec.Struct, frozen=True):
    """Registered brokers that do not run. `offline` are the partitions with replicas on these
    brokers alone, `fewer` is the number of other partitions with replicas on them. `running` is the
    number of brokers that run."""

    brokers: tuple[int, ...]
    offline: tuple[str, ...]
    fewer: int
    running: int

    def __str__(self) -> str:
        """Return the warning."""
        does, has = ("do", "have") if len(self.brokers) > 1 else ("does", "has")
        plural = "s" if len(self.brokers) > 1 else ""
        missing = f"broker{plural} {_listed(self.brokers)} of this data directory {does} not run"
        unregister = "; ".join(f"oncelog cluster unregister {broker}" for broker in self.brokers)
        if not self.offline and not self.fewer:
            return f"{missing}, and {has} no partition. To unregister: {unregister}"
        drain = "; ".join(f"oncelog cluster drain {broker} --execute" for broker in self.brokers)
        return (
            f"{missing}: {self._effects()}. To have them all, start with --brokers"
            f" {self.running + len(self.brokers)}. To have fewer brokers, do so and then: {drain};"
            f" stop; start with --brokers {self.running}; {unregister}"
        )

    def _effects(self) -> str:
        effects = []
        if self.offline:
            more = len(self.offline) - NAMED
            shown = ", ".join(self.offline[:NAMED]) + (f" and {more} more" if more > 0 else "")
            effects.append(f"{_partitions(len(self.offline))} cannot be read or written ({shown})")
        if self.fewer:
            effects.append(f"{_partitions(self.fewer)} with fewer replicas")
        return ", ".join(effects)


def missing_brokers(image: ClusterImage, running: Collection[int]) -> MissingBrokers | None:
    """Return the registered brokers that are not in `running`, None if there are none."""
    missing = tuple(sorted(image.registrations.keys() - set(running)))
    if not missing:
        return None
    offline = []
    fewer = 0
    for topic in image.topics.values():
        for partition in topic.partitions:
            lacking = [replica in missing for replica in partition.replicas]
            if lacking and all(lacking):
                offline.append(f"{topic.name}-{partition.partition}")
            elif any(lacking):
                fewer += 1
    return MissingBrokers(missing, tuple(offline), fewer, len(running))


def _listed(brokers: Sequence[int]) -> str:
    """Return `2`, `2 and 3`, or `2, 3 and 4`."""
    *others, last = map(str, brokers)
    return f"{', '.join(others)} and {last}" if others else last


def _partitions(count: int) -> str:
    return f"{count} partition{'s' if count > 1 else ''}"
