"""A run: a cluster, its clients, faults one after another, and the audit."""

from __future__ import annotations

import logging
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from oncelog_client import KafkaError
from tests.cluster.reading import all_in_sync
from tests.harness.broker import BrokerFailed
from tests.harness.etcd import Etcd
from tests.harness.relays import Relays
from tests.torture.audit import Verdict
from tests.torture.cluster.audit import Row, audit_loads, audit_replicas, audit_transactions
from tests.torture.cluster.faults import KINDS, Scene
from tests.torture.cluster.loads import COPY_LOOP, Loads
from tests.torture.cluster.relayed import RelayedCluster
from tests.torture.cluster.timeline import Struck, Timeline
from tests.torture.run import wait_for

SETTINGS: Final[Mapping[str, str]] = {
    # A cut of the network may last longer, so that followers leave the ISR and come back.
    "replica.lag.time.max.ms": "3000",
    # Small, so that logs roll all the time.
    "log.segment.bytes": "1048576",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
# All clients must succeed again within this time after a fault.
STUCK_AFTER_S: Final = 90.0
LONGEST_PEACE_S: Final = 0.5
# After this part of the faults, the next fault waits until all replicas are in sync.
CALM: Final = 0.5


@dataclass
class Outcome:
    """The result of a run."""

    seed: int
    verdict: Verdict = field(default_factory=Verdict)
    timeline: Timeline = field(default_factory=Timeline)
    rows: list[Row] = field(default_factory=list)
    partitions: int = 0


@dataclass
class ClusterTorture:
    """A run of `faults` faults. `seed` decides all choices. Which broker has a chosen role, and the
    moments, depend on the computer. `java`: with producers of Java. `kinds` are the first faults,
    before those that the seed draws."""

    directory: Path
    seed: int
    faults: int
    java: bool
    tell: Callable[[str], None]
    settings: Mapping[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()

    def run(self) -> Outcome:
        self.outcome = Outcome(self.seed)
        # Clients that made no progress. The run does not wait for them after further faults.
        self._stuck: set[str] = set()
        self.randomness = random.Random(self.seed)
        with (
            logged(self.directory / "clients.log"),
            Etcd(self.directory / "etcd", members=3) as etcd,
            Relays() as relays,
            RelayedCluster(
                self.directory, etcd, relays, settings={**SETTINGS, **self.settings}
            ) as cluster,
        ):
            admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
            self.scene = Scene(cluster, etcd, relays, admin, self.randomness)
            java = self.directory / "java" if self.java else None
            loads = Loads(cluster.address, self.directory, self.randomness, java)
            try:
                loads.start()
                self._settle(loads)
                self._strike_all(loads)
                self._finish(loads)
            finally:
                loads.close()
            audit_transactions(cluster.address, self._verdict)
            self.outcome.rows = audit_loads(loads, self.outcome.timeline, self._verdict)
            self.outcome.partitions = audit_replicas(cluster, admin, self._verdict)
        return self.outcome

    @property
    def _verdict(self) -> Verdict:
        return self.outcome.verdict

    def _strike_all(self, loads: Loads) -> None:
        began_s = time.monotonic()
        for number in range(1, self.faults + 1):
            time.sleep(self.randomness.uniform(0, LONGEST_PEACE_S))
            struck = self._strike(number, loads)
            self.outcome.timeline.faults.append(struck)
            self._verdict.kinds[struck.kind] += 1
            passed_s = time.monotonic() - began_s
            self.tell(
                f"{passed_s:7.1f} s  {struck} ({struck.ended_s - struck.began_s:.1f} s, "
                f"all clients work after {struck.settling_s:.1f} s)"
            )

    def _strike(self, number: int, loads: Loads) -> Struck:
        kind = self._next_kind(number)
        began_s = time.monotonic()
        try:
            what = KINDS[kind][1](self.scene)
        except BrokerFailed as error:
            what = "failed"
            self._violated(f"fault {number}, {kind}: {error}")
        ended_s = time.monotonic()
        fault = Struck(number, kind, what, began_s, ended_s, ended_s)
        self._look_for_ended(fault)
        self._settle(loads, fault)
        return fault._replace(settled_s=time.monotonic())

    def _next_kind(self, number: int) -> str:
        if number <= len(self.kinds):
            return self.kinds[number - 1]
        (kind,) = self.randomness.choices([*KINDS], [weight for weight, _ in KINDS.values()])
        return kind

    def _look_for_ended(self, fault: Struck) -> None:
        """Add a violation for each broker that has ended by itself, and start it again."""
        for id_, broker in self.scene.cluster.brokers.items():
            if not broker.is_running:
                self._violated(f"{fault}: broker {id_} has ended: {broker.said()[-2000:]}")
                broker.start()

    def _settle(self, loads: Loads, fault: Struck | None = None) -> None:
        """Wait until all clients have succeeded again, and at times until all replicas are in
        sync."""
        deadline_s = time.monotonic() + STUCK_AFTER_S
        before = loads.counts()
        late = [name for name in before if name not in self._stuck]
        is_calm = self.randomness.random() < CALM
        while late or (is_calm and not self._in_sync()):
            if time.monotonic() > deadline_s:
                named = ", ".join(late) or "a replica"
                self._stuck.update(late)
                if COPY_LOOP in late:
                    # New copiers take the place of the stuck ones during the next faults.
                    loads.replace_copiers()
                    self._stuck.remove(COPY_LOOP)
                self._violated(
                    f"{fault or 'the start'}: {named} made no progress in {STUCK_AFTER_S:.0f} s"
                )
                return
            time.sleep(0.05)
            now = loads.counts()
            late = [name for name in late if now[name] <= before[name]]

    def _in_sync(self) -> bool:
        try:
            return all_in_sync(self.scene.admin)
        except KafkaException:
            return False

    def _finish(self, loads: Loads) -> None:
        try:
            loads.finish()
        except (KafkaError, TimeoutError) as error:
            self._violated(f"our copy loop has no complete input: {error!r}")
        for name, left in loads.left():
            wait_for(left, name, self._verdict)
        self._verdict.violations += loads.feeder.failures[:3]

    def _violated(self, text: str) -> None:
        self._verdict.violations.append(text)
        self.tell(f"violation: {text}")


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """Write the log events of our clients to a file. Each retry is a line."""
    log, handler = logging.getLogger("oncelog_client"), logging.FileHandler(path)
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = True
        handler.close()


def table(outcomes: list[Outcome]) -> list[str]:
    """Return the lines of a summary: the faults by kind, then the counts by load."""
    lines = []
    faults = [fault for outcome in outcomes for fault in outcome.timeline.faults]
    for kind in KINDS:
        settling = [fault.settling_s for fault in faults if fault.kind == kind]
        if settling:
            lines.append(
                f"  {kind:42} {len(settling):4} times, all clients work after "
                f"{statistics.median(settling):4.1f} s (median), {max(settling):5.1f} s at most"
            )
    named: dict[str, list[Row]] = {}
    for outcome in outcomes:
        for row in outcome.rows:
            named.setdefault(row.name, []).append(row)
    return lines + [str(_sum(rows)) for rows in named.values()]


def _sum(rows: list[Row]) -> Row:
    """Return one row for the rows of a load in several runs."""
    total = Row(rows[0].name, 0, 0, 0, 0.0)
    for row in rows:
        total.acknowledged += row.acknowledged
        total.lost += row.lost
        total.doubled += row.doubled
        total.longest_gap_s = max(total.longest_gap_s, row.longest_gap_s)
        total.unknown += row.unknown
        total.errors += row.errors
    return total
