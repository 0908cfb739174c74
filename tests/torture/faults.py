"""The faults that a torture run causes while processes copy records in transactions: the kinds of
fault, their frequency, and the time until every transaction that was open at a fault is decided."""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from oncelog.testing.wire import Closed
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.torture.access import Access
from tests.torture.copier import OUTPUT
from tests.torture.power import PowerLoss
from tests.torture.workload import PARTITIONS, Broker, Copiers

# Maximum time from the restart of a recovering broker to its second kill.
LONGEST_RECOVERY_S = 0.5
LONGEST_BROKER_PAUSE_S = 2.0
# Longer than the session timeout (3 s), so that the group sometimes removes the paused copier
# before it resumes.
LONGEST_COPIER_PAUSE_S = 4.5
# The transaction timeout is 10 s, so no reader should wait longer than this limit.
DECISION_TIMEOUT_S = 25.0
LATEST = -1
POWER_LOSS = "power loss"


@dataclass(slots=True)
class Faults:
    """Causes one fault after another. `decisions`: for each kind of fault, the duration of each of
    its faults in s. The duration ends when all records that were in the output topic right after
    the fault are committed or aborted."""

    broker: Broker
    access: Access
    copiers: Copiers
    randomness: random.Random
    power: PowerLoss | None = None
    decisions: dict[str, list[float]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        """Return the number of faults of each kind."""
        return Counter({kind: len(times) for kind, times in self.decisions.items()})

    @property
    def count(self) -> int:
        return sum(map(len, self.decisions.values()))

    @property
    def kills(self) -> int:
        """Return the number of broker kills. Power losses do not count."""
        return sum(len(self.decisions.get(kind, ())) * times for kind, times in KILLS.items())

    def strike(self) -> bool:
        """Cause a random fault, and wait until all records of open transactions are decided. Return
        False, without a fault, if the chosen process was dead."""
        kind = self._next_kind()
        began = time.monotonic()
        if not KINDS[kind][1](self):
            self.copiers.supervise()
            return False
        struck: dict[int, int] | None = None
        while True:
            self.copiers.supervise()
            struck = struck or self._ends(committed=False)
            stable = self._ends(committed=True)
            if (
                struck
                and stable
                and all(stable[partition] >= end for partition, end in struck.items())
            ):
                break
            if time.monotonic() - began > DECISION_TIMEOUT_S:
                self.violations.append(
                    f"{DECISION_TIMEOUT_S} s after {kind} the last stable offsets are {stable},"
                    f" but records up to {struck} must be decided"
                )
                break
            time.sleep(0.02)
        self.decisions.setdefault(kind, []).append(time.monotonic() - began)
        return True

    @property
    def missing(self) -> list[str]:
        """Return the possible kinds of fault that have not occurred yet."""
        kinds = kinds_of(loses_power=self.power is not None)
        return [kind for kind in kinds if kind not in self.decisions]

    def _next_kind(self) -> str:
        """Return a random kind. No kind occurs twice before every possible kind has occurred
        once."""
        kinds = self.missing or kinds_of(loses_power=self.power is not None)
        (kind,) = self.randomness.choices(kinds, [KINDS[kind][0] for kind in kinds])
        return kind

    def _ends(self, *, committed: bool) -> dict[int, int] | None:
        with suppress(OSError, Closed, ProtocolError):
            return ends(self.access, committed=committed)
        return None

    def figures(self) -> list[str]:
        """Return a line for each kind of fault."""
        return [
            f"  {kind:30} {len(times):4} times, last decision after {statistics.median(times):5.2f}"
            f" s (median), {max(times):5.2f} s at most"
            for kind, times in sorted(self.decisions.items())
        ]


def kill_broker(faults: Faults) -> bool:
    faults.broker.kill()
    faults.broker.start()
    return True


def kill_broker_twice(faults: Faults) -> bool:
    faults.broker.kill()
    faults.broker.spawn()
    time.sleep(faults.randomness.uniform(0, LONGEST_RECOVERY_S))
    return kill_broker(faults)


def cut_power(faults: Faults) -> bool:
    assert faults.power is not None
    faults.broker.kill()
    faults.power.strike()
    faults.broker.start()
    return True


def pause_broker(faults: Faults) -> bool:
    os.kill(faults.broker.pid, signal.SIGSTOP)
    time.sleep(faults.randomness.uniform(0, LONGEST_BROKER_PAUSE_S))
    os.kill(faults.broker.pid, signal.SIGCONT)
    return True


def kill_copier(faults: Faults) -> bool:
    return faults.copiers.kill_one()


def pause_copier(faults: Faults) -> bool:
    with faults.copiers.one_suspended() as is_suspended:
        time.sleep(faults.randomness.uniform(0, LONGEST_COPIER_PAUSE_S) * is_suspended)
    return is_suspended


KINDS: Mapping[str, tuple[float, Callable[[Faults], bool]]] = {
    "kill -9 of the broker": (5, kill_broker),
    "kill -9 of a recovering broker": (2, kill_broker_twice),
    POWER_LOSS: (5, cut_power),
    "SIGSTOP of the broker": (3, pause_broker),
    "kill -9 of a copier": (4, kill_copier),
    "SIGSTOP of a copier": (2, pause_copier),
}


# The number of broker kills in one fault of a kind.
KILLS: Mapping[str, int] = {"kill -9 of the broker": 1, "kill -9 of a recovering broker": 2}


def kinds_of(*, loses_power: bool) -> list[str]:
    """Return the kinds of fault of a run. Power losses occur only in runs with a broker that syncs
    records before it acknowledges them."""
    return [kind for kind in KINDS if loses_power or kind != POWER_LOSS]


def ends(access: Access, *, committed: bool) -> dict[int, int]:
    """Return the last stable offset (`committed`) or the high watermark of each partition of the
    output topic. Raises Closed, ProtocolError or OSError without a usable response, and
    ConnectionError for a partition without a leader."""
    wanted = [ListOffsetsPartition(partition, timestamp=LATEST) for partition in range(PARTITIONS)]
    request = ListOffsetsRequest(-1, int(committed), [ListOffsetsTopic(OUTPUT, wanted)])
    with access.connect() as wire:
        found = wire.call(request, 7).topics[0].partitions
    if any(response.error_code != ErrorCode.NONE for response in found):
        raise ConnectionError("a partition has no leader yet")
    return {partition.partition_index: partition.offset for partition in found}
