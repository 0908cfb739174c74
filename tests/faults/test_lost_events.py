"""Log events that cannot be written, because their disk is full or the pipe has no reader. Requests
do not fail because of that, and every operation completes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, end_offset, last_stable_offset, merged, values
from tests.harness.waiting import wait_until
from tests.harness.writing import batch, end_transaction, new_identity, produce


class Unheard(Oncelog):
    """A broker that writes its log events to a pipe without a reader (EPIPE)."""

    def spawn(self) -> subprocess.Popen[bytes]:
        self.directory.mkdir(parents=True, exist_ok=True)
        reader, writer = os.pipe()
        os.close(reader)
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=output, stderr=writer
            )
        os.close(writer)
        self.log.touch()
        return self._process


@pytest.fixture
def unheard(tmp_path: Path) -> Iterator[Oncelog]:
    broker = Unheard(tmp_path, QUICK)
    broker.start()
    yield broker
    broker.kill()


def test_transactions_time_out_and_are_fenced_though_no_log_event_can_be_written(
    unheard: Oncelog,
) -> None:
    with Wire(unheard.address) as wire:
        create(wire, "t", partitions=2)
        silent = new_identity(wire, "silent", timeout_ms=100)
        older = new_identity(wire, "taken over")
        for place, producer in enumerate((silent, older)):
            sent = produce(wire, "t", batch(producer, 0), producer=producer, partition=place)
            assert sent.error_code == ErrorCode.NONE
        wait_until(
            lambda: last_stable_offset(wire, "t", 0) == end_offset(wire, "t", 0) == 2,
            "the silent producer's transaction is aborted",
        )
        newer = new_identity(wire, "taken over")
        refused = produce(wire, "t", batch(older, 1), producer=older, partition=1)
        assert refused.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        sent = produce(wire, "t", batch(newer, 0, value=b"new"), producer=newer, partition=1)
        assert sent.error_code == ErrorCode.NONE
        assert end_transaction(wire, newer, commit=True).error_code == ErrorCode.NONE
        wait_until(
            lambda: last_stable_offset(wire, "t", 1) == end_offset(wire, "t", 1) == 4,
            "the newer producer's transaction is committed",
        )
        assert values(wire, "t") + values(wire, "t", partition=1) == [b"new"]
    assert unheard.stop() == 0
    assert (unheard.data / ".kafka_cleanshutdown").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
def test_a_disk_that_is_full_for_records_and_log_events_refuses_the_client(tmp_path: Path) -> None:
    """A Produce needs a record in the transaction log, which is full, so it gets
    NOT_ENOUGH_REPLICAS. Once the disk has space again, it succeeds."""
    one_log = {"transaction.state.log.num.partitions": "1"}
    with Oncelog(tmp_path, merged(QUICK, one_log)) as broker, Wire(broker.address) as wire:
        create(wire, "t")
        producer = new_identity(wire, "t")
        log = broker.data / "__transaction_state-0" / f"{0:020}.log"
        full = min(log.stat().st_size, broker.log.stat().st_size)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
        for _ in range(3):
            refused = produce(wire, "t", batch(producer, 0), producer=producer)
            assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        forever = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, forever)
        assert (
            produce(wire, "t", batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
        )
        assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE
        assert values(wire, "t") == [b"v"]
