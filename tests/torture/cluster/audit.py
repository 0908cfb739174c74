"""The audit of a run: every acknowledged record is there, none is there twice, all are in the order
that was promised, no transaction is open, and the replicas are equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from oncelog_client.sync import Admin
from tests.cluster.reading import all_in_sync
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until
from tests.torture.access import Role
from tests.torture.audit import Verdict, audit, compare, read_all
from tests.torture.cluster.loads import WRITTEN, Loads
from tests.torture.cluster.replicas import differences
from tests.torture.cluster.timeline import Timeline, longest_gap_s
from tests.torture.cluster.writers import Writer

CALL_S: Final = 30.0
# A transaction of a client that has given up is aborted when it times out, a minute later.
DECISION_S: Final = 120.0
OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
SHOWN: Final = 3


@dataclass(slots=True)
class Row:
    """The counts of one load. `unknown`: records without an acknowledgment, which may be there."""

    name: str
    acknowledged: int
    lost: int
    doubled: int
    longest_gap_s: float
    unknown: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"  {self.name:26} {self.acknowledged:8,} acknowledged {self.lost:3} lost "
            f"{self.doubled:3} doubled {self.longest_gap_s:6.1f} s longest gap "
            f"{self.unknown:5} unknown {self.errors.total():4} errors"
        )


def audit_loads(loads: Loads, timeline: Timeline, verdict: Verdict) -> list[Row]:
    """Read all topics. Add what is violated to the verdict, and return the counts of each load."""
    settings = loads.access.settings(Role.AUDITOR)
    rows = [_audit_copy_loop(loads, timeline, verdict), _audit_own_copy_loop(loads, verdict)]
    found = read_all(settings, WRITTEN)
    for writer in loads.writers:
        row = audit_writer(writer, found, timeline, verdict.violations)
        verdict.losses += row.lost
        verdict.duplicates += row.doubled
        verdict.records += row.acknowledged
        rows.append(row)
    attempted = {value for writer in loads.writers for value in writer.attempted}
    strange = {value for values in found.values() for value in values} - attempted
    if strange:
        verdict.violations.append(f"{WRITTEN}: never written: {_some(strange)}")
    return rows


def _audit_copy_loop(loads: Loads, timeline: Timeline, verdict: Verdict) -> Row:
    own = Verdict()
    audit(loads.access, loads.feeder.written, loads.reader.read, own)
    read = {value for values in loads.reader.read.values() for value in values}
    for value in sorted(loads.feeder.written.keys() - read)[:SHOWN]:
        at = timeline.during(loads.feeder.acknowledged_s[value])
        own.violations.append(f"{value} was acknowledged at {at}")
    _add(own, verdict)
    times_s = sorted(loads.feeder.acknowledged_s.values())
    gap_s = max(longest_gap_s(times_s), loads.copied.longest_gap_s)
    row = Row("copy loop (librdkafka)", own.records, own.losses, own.duplicates, gap_s)
    row.errors["a copier was started again"] = loads.copiers.restarts
    return row


def _audit_own_copy_loop(loads: Loads, verdict: Verdict) -> Row:
    settings, work, fed = loads.access.settings(Role.AUDITOR), loads.own.work, loads.own.fed
    own = Verdict(violations=list(loads.own.violations))
    source, sink = read_all(settings, work.input), read_all(settings, work.output)
    own.records = sum(map(len, sink.values()))
    compare(work.input, fed, source, own)
    compare(work.output, fed, sink, own)
    if source != sink:
        own.violations.append(f"{work.output}: a different order from that of {work.input}")
    _add(own, verdict)
    gap_s = loads.own.longest_gap_s
    row = Row("copy loop (oncelog)", own.records, own.losses, own.duplicates, gap_s)
    row.errors["a copier was started again"] = loads.own.restarts
    return row


def _add(own: Verdict, verdict: Verdict) -> None:
    verdict.records += own.records
    verdict.losses += own.losses
    verdict.duplicates += own.duplicates
    verdict.violations += own.violations


def audit_writer(
    writer: Writer, found: Mapping[int, Sequence[str]], timeline: Timeline, violations: list[str]
) -> Row:
    """Compare what a producer has written with the topic. `found`: by partition, all values."""
    prefix = f"{writer.name}-"
    there = {
        partition: [value for value in values if value.startswith(prefix)]
        for partition, values in found.items()
    }
    counted = Counter(value for values in there.values() for value in values)
    lost = sorted(set(writer.written) - counted.keys())
    doubled = sorted(value for value, times in counted.items() if times > 1)
    if not writer.is_idempotent:
        doubled = []
    acknowledged = set(writer.written)
    for what, values in (("lost", lost), ("doubled", doubled)):
        for value in values[:SHOWN]:
            at = (
                timeline.during(writer.acknowledged_s(value))
                if value in acknowledged
                else "no time: it was not acknowledged"
            )
            violations.append(f"{value} is {what} ({len(values)} are); acknowledged at {at}")
    for partition, values in there.items():
        if writer.is_idempotent and values != sorted(values):
            violations.append(f"{writer.name}: partition {partition} is not in order")
    unknown = len(set(writer.attempted) - acknowledged)
    errors = Counter(error.split("(")[0] for error in writer.errors)
    gap_s = longest_gap_s(writer.successes)
    return Row(writer.name, len(acknowledged), len(lost), len(doubled), gap_s, unknown, errors)


def audit_transactions(address: str, verdict: Verdict) -> None:
    """Check that no transaction stays open."""
    with Admin(address) as admin:
        try:
            wait_until(
                lambda: not admin.list_transactions(states=OPEN),
                "the end of all transactions",
                DECISION_S,
            )
        except AssertionError:
            verdict.violations.append(f"open: {admin.list_transactions(states=OPEN)}")


def audit_replicas(cluster: Cluster, admin: AdminClient, verdict: Verdict) -> int:
    """Kill all brokers, and compare the logs of the replicas. Return the number of partitions."""
    wait_until(lambda: all_in_sync(admin), "all replicas are in sync")
    high_watermarks = _ends(admin, IsolationLevel.READ_UNCOMMITTED)
    stable = _ends(admin, IsolationLevel.READ_COMMITTED)
    for place, end in high_watermarks.items():
        if stable[place] != end:
            verdict.violations.append(f"{place}: LSO {stable[place]} is not HW {end}")
    for broker in cluster.brokers.values():
        broker.kill()
    folders = [broker.data for broker in cluster.brokers.values()]
    verdict.violations += differences(folders, high_watermarks)
    return len(high_watermarks)


def _ends(admin: AdminClient, isolation: IsolationLevel) -> dict[tuple[str, int], int]:
    """Return the end of each partition of all topics."""
    topics = admin.list_topics(timeout=CALL_S).topics
    wanted = {
        TopicPartition(name, partition): OffsetSpec.latest()
        for name, topic in topics.items()
        for partition in topic.partitions
    }
    answers: dict[Any, Any] = admin.list_offsets(
        wanted, isolation_level=isolation, request_timeout=CALL_S
    )
    return {
        (place.topic, place.partition): answer.result().offset for place, answer in answers.items()
    }


def _some(values: Iterable[str]) -> str:
    return ", ".join(sorted(values)[:SHOWN])
