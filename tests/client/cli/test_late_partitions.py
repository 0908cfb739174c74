"""`oncelog consume` reads an offline partition as soon as a broker leads it."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from tests.harness.broker import Oncelog
from tests.harness.driving import create, damage, list_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import produce, records

TOPIC = "orders"
PARTITIONS = 2
DEADLINE_S = 60.0


def fill(address: str) -> None:
    """Write two records into each partition."""

    def is_led(wire: Wire, partition: int) -> bool:
        return list_offset(wire, TOPIC, -1, partition)[0] == ErrorCode.NONE

    with Wire(address) as wire:
        create(wire, TOPIC, partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            wait_until(partial(is_led, wire, partition), f"partition {partition} is led")
            for _ in range(2):
                batch = build_batch(records(1, b"%d" % partition))
                assert produce(wire, TOPIC, batch, partition=partition).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("start", "each"), [(["--from-beginning"], 2), (["-o", "-1"], 1), (["-o", "@2026-01-01"], 2)]
)
def test_a_partition_that_gets_a_leader_is_read_from_the_same_start(
    tmp_path: Path, start: list[str], each: int
) -> None:
    with Oncelog(tmp_path, QUICK) as broker:
        fill(broker.address)
        address = broker.address
    log = broker.data / f"{TOPIC}-1" / f"{0:020}.log"
    sound = log.read_bytes()
    damage(log, 16)  # the magic byte
    broker.start()
    words = ["consume", TOPIC, *start, "-n", f"{each * 2}", "--bootstrap-server", address]
    command = subprocess.Popen(
        [sys.executable, "-m", "oncelog_client.cli", *words], stdout=subprocess.PIPE, text=True
    )
    read: list[str] = []
    assert command.stdout is not None
    try:
        reading = threading.Thread(target=lambda lines: read.extend(lines), args=[command.stdout])
        reading.start()
        wait_until(lambda: len(read) == each, "the led partition is read", DEADLINE_S)
        assert broker.stop() == 0
        log.write_bytes(sound)
        broker.start()
        assert command.wait(DEADLINE_S) == 0
        reading.join(DEADLINE_S)
    finally:
        command.kill()
        command.wait()
        command.stdout.close()
        broker.stop()
    assert [line.strip() for line in read] == ["0"] * each + ["1"] * each
