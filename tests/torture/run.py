"""A run: faults one after another, then the rest of the copying, then the audit."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.committing import commit_offsets
from tests.torture.access import Access, PlainAccess, Role
from tests.torture.audit import Verdict, audit, committed_offsets, end_offsets
from tests.torture.copier import GROUP, INPUT, OUTPUT, RECONNECT
from tests.torture.faults import Faults
from tests.torture.power import PowerLoss
from tests.torture.workload import PARTITIONS, Broker, Copiers, Feeder, Reader

COPIERS = 3
RECORDS_PER_S = 400
# Maximum time between the end of one fault and the beginning of the next.
LONGEST_PEACE_S = 1.2
STUCK_AFTER_S = 60.0

BROKER_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}


def torture(
    broker: Broker,
    records: int,
    seed: int,
    directory: Path,
    tell: Callable[[str], None],
    power: PowerLoss | None = None,
    faults_wanted: int = 0,
    access: Access | None = None,
) -> Verdict:
    """Copy at least `records` records while faults follow each other, and audit the result.

    Copying continues until `faults_wanted` faults and every kind of fault have occurred. The broker
    must be running. `seed` determines all choices, but the times of the faults depend on the
    computer. `power` adds power losses to the faults. Without `access`, the broker needs no login.
    """
    randomness = random.Random(seed)
    access = access or PlainAccess(broker.address)
    auditor = access.settings(Role.AUDITOR)
    create_topics(auditor)
    begin_group(auditor)
    feeder = Feeder(access.settings(Role.FEEDER), records, RECORDS_PER_S)
    reader = Reader(access.settings(Role.READER))
    feeder.start()
    reader.start()
    start = time.monotonic()
    verdict = Verdict()
    with Copiers(access, COPIERS, randomness, directory) as copiers:
        faults = Faults(broker, access, copiers, randomness, power)
        while not feeder.is_done:
            time.sleep(randomness.uniform(0, LONGEST_PEACE_S))
            has_struck = faults.strike()
            if faults.count >= faults_wanted and not faults.missing:
                feeder.may_end()
            if has_struck and faults.count % 10 == 0:
                passed = time.monotonic() - start
                tell(
                    f"{faults.count:4} faults  {passed:6.1f} s  {len(feeder.written):6} fed  "
                    f"{reader.count:6} read  {copiers.restarts:3} copiers started again"
                )
        feeder.stop()
        drain(auditor, copiers, verdict)
    verdict.violations += feeder.failures[:3] + faults.violations
    wait_for(lambda: max(len(feeder.written) - reader.count, 0), "the live reader", verdict)
    reader.stop()
    audit(access, feeder.written, reader.read, verdict)
    verdict.violations += access.violations()
    verdict.kinds, verdict.figures = faults.counts, faults.figures() + access.figures()
    verdict.kills = faults.kills
    return verdict


def create_topics(settings: Mapping[str, Any]) -> None:
    """Create the input and the output topic."""
    admin = AdminClient({**settings, "log_level": 0})
    topics = [NewTopic(name, num_partitions=PARTITIONS) for name in (INPUT, OUTPUT)]
    for created in admin.create_topics(topics).values():
        created.result()


def begin_group(settings: Mapping[str, Any]) -> None:
    """Commit offset 0 of every input partition for the copiers' group."""
    consumer = Consumer({**settings, "group.id": GROUP, **RECONNECT})
    try:
        beginning = [TopicPartition(INPUT, partition, 0) for partition in range(PARTITIONS)]
        commit_offsets(consumer, beginning)
    finally:
        consumer.close()


def drain(settings: Mapping[str, Any], copiers: Copiers, verdict: Verdict) -> None:
    """Wait until the copiers have committed the last offset of the input."""
    admin = AdminClient({**settings, **RECONNECT})
    consumer = Consumer({**settings, "group.id": GROUP, **RECONNECT})

    def left() -> int | None:
        copiers.supervise()
        try:
            ends = end_offsets(admin, INPUT, committed=False)
            committed = committed_offsets(consumer)
        except KafkaException:
            return None
        return sum(abs(end - committed[partition]) for partition, end in ends.items())

    wait_for(left, "the copiers", verdict)
    consumer.close()


def wait_for(left: Callable[[], int | None], copier: str, verdict: Verdict) -> None:
    """Wait until `left` returns 0. None means that the number is unknown at the moment. If the
    number does not fall for STUCK_AFTER_S, `copier` is stuck, which is a violation."""
    least, deadline = sys.maxsize, time.monotonic() + STUCK_AFTER_S
    while (now := left()) != 0:
        if now is not None and now < least:
            least, deadline = now, time.monotonic() + STUCK_AFTER_S
        if time.monotonic() > deadline:
            verdict.violations.append(f"{copier} made no progress in {STUCK_AFTER_S} s")
            return
        time.sleep(0.1)
