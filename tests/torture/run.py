"""Kill, start, kill again; then let the copiers finish and audit."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.torture.audit import Verdict, audit, committed_offsets, end_offsets
from tests.torture.copier import GROUP, INPUT, OUTPUT
from tests.torture.workload import PARTITIONS, Broker, Copiers, Feeder, Reader

COPIERS = 2
RECORDS_PER_S = 200
# The time a broker is left alone: long enough for a transaction, short enough to hit one.
LONGEST_LIFE_S = 1.2
LONGEST_RECOVERY_S = 0.5
DRAIN_TIMEOUT_S = 90.0
# One kill in so many is of a copier, and of a broker that has just begun to recover.
COPIER_KILL_PROBABILITY = 0.15
DOUBLE_KILL_PROBABILITY = 0.1

BROKER_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}


def torture(
    broker: Broker, kills: int, seed: int, directory: Path, tell: Callable[[str], None]
) -> Verdict:
    """Run the copy loop under `kills` kills of a started broker, and audit it.

    All chances come from `seed`; the moments they hit are as random as the machine.
    """
    chance = random.Random(seed)
    create_topics(broker.address)
    feeder, reader = Feeder(broker.address, RECORDS_PER_S), Reader(broker.address)
    feeder.start()
    reader.start()
    start = time.monotonic()
    verdict = Verdict()
    with Copiers(broker.address, COPIERS, chance, directory / "copiers.log") as copiers:
        for number in range(1, kills + 1):
            time.sleep(chance.uniform(0, LONGEST_LIFE_S))
            kill(broker, chance)
            if chance.random() < COPIER_KILL_PROBABILITY:
                copiers.kill_one()
            copiers.supervise()
            if number % 10 == 0 or number == kills:
                passed = time.monotonic() - start
                tell(
                    f"{number:4} kills  {passed:6.1f} s  {sum(feeder.written.values()):6} fed  "
                    f"{reader.count:6} read  {copiers.restarts:3} copiers started again"
                )
        feeder.stop()
        drain(broker.address, copiers, verdict)
    verdict.violations += feeder.failures[:3]
    wait_for(lambda: reader.count >= len(feeder.written), "the live reader", verdict)
    reader.stop()
    audit(broker.address, feeder.written, reader.read, verdict)
    return verdict


def kill(broker: Broker, chance: random.Random) -> None:
    """SIGKILL and a new start; at times killed once more on the way up."""
    broker.kill()
    if chance.random() < DOUBLE_KILL_PROBABILITY:
        broker.spawn()
        time.sleep(chance.uniform(0, LONGEST_RECOVERY_S))
        broker.kill()
    broker.start()


def create_topics(address: str) -> None:
    """Input and output."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    topics = [NewTopic(name, num_partitions=PARTITIONS) for name in (INPUT, OUTPUT)]
    for created in admin.create_topics(topics).values():
        created.result()


def drain(address: str, copiers: Copiers, verdict: Verdict) -> None:
    """Wait until the copiers have committed the last offset of the input."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP, "log_level": 0})

    def is_done() -> bool:
        copiers.supervise()
        try:
            return committed_offsets(consumer) == end_offsets(admin, INPUT, committed=False)
        except KafkaException:
            return False

    wait_for(is_done, "the copiers", verdict)
    consumer.close()


def wait_for(condition: Callable[[], bool], who: str, verdict: Verdict) -> None:
    """Wait for the end of the work; who does not get there is stuck, which is a violation."""
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            verdict.violations.append(f"{who} did not reach the end in {DRAIN_TIMEOUT_S} s")
            return
        time.sleep(0.1)
