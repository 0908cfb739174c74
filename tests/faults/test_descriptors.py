"""A process without free file descriptors waits without using the CPU. It serves open connections,
and accepts new ones when descriptors are free again (scenarios D5, D6)."""

from __future__ import annotations

import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, answers, create, events, fetch, taken, values
from tests.harness.waiting import wait_until
from tests.harness.writing import produce, records

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prlimit"),
    pytest.mark.usefixtures("own_interpreter"),
]

PARK_MS = 1_500
# Share of one core that the broker may use without any request (D5).
CPU_SHARE = 0.2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oncelog]:
    broker = Oncelog(tmp_path, QUICK, arguments=("--debug",))
    broker.start()
    # An import needs a descriptor, so the broker must have imported everything before a test takes
    # them.
    wait_until(lambda: "everything imported" in broker.said(), "all modules are imported")
    yield broker
    broker.kill()


def limit_descriptors(broker: Oncelog, more: int | None) -> None:
    """Limit the broker to `more` descriptors above those that are open now. With None, restore the
    former limit."""
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    soft = hard if more is None else taken(broker.pid).descriptors + more
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_d5_new_connections_wait_for_descriptors_and_connected_clients_continue(
    broker: Oncelog,
) -> None:
    """D5: 100 clients beyond the limit cost no CPU time, and connected clients notice nothing."""
    with Wire(broker.address) as wire, ExitStack() as crowd:
        create(wire, "t")
        assert produce(wire, "t", build_batch(records())).error_code == ErrorCode.NONE
        limit_descriptors(broker, 5)
        for _ in range(100):
            crowd.enter_context(socket.create_connection((broker.host, broker.port), 10))
        before = taken(broker.pid)
        assert fetch(wire, "t", 1, max_wait_ms=PARK_MS, min_bytes=1).error_code == ErrorCode.NONE
        used_s = taken(broker.pid).cpu_s - before.cpu_s
        assert used_s < CPU_SHARE * PARK_MS / 1000, f"{used_s} s of CPU in {PARK_MS} ms"
        for offset in range(1, 20):
            assert produce(wire, "t", build_batch(records())).base_offset == offset
        limit_descriptors(broker, None)
        crowd.close()
        wait_until(lambda: answers(broker), "a new client is served")
    events(broker)


def test_d6_a_record_that_needs_a_new_segment_is_refused_without_descriptors(
    broker: Oncelog,
) -> None:
    """D6: the partition responds with KAFKA_STORAGE_ERROR, and the process continues. When
    descriptors are free again, the log continues at its end."""
    sent: list[bytes] = []
    with Wire(broker.address) as wire:
        create(wire, "t", internal_segment_bytes=2_000)
        codes: list[int] = []
        limit_descriptors(broker, 0)
        for number in range(12):
            value = b"%d" % number * 300
            response = produce(wire, "t", build_batch(records(1, value)))
            codes.append(response.error_code)
            sent += [value] if response.error_code == ErrorCode.NONE else []
        assert set(codes) == {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
        limit_descriptors(broker, None)
        assert values(wire, "t") == sent
        for number in range(12):
            value = b"%d" % number * 300
            assert produce(wire, "t", build_batch(records(1, value))).base_offset == len(sent)
            sent.append(value)
        assert values(wire, "t") == sent
    (logged,) = [event for event in events(broker) if event["event"] == "disk refused"]
    assert "Too many open files" in str(logged["reason"])
    broker.kill()
    broker.start()
    with Wire(broker.address) as wire:
        assert values(wire, "t") == sent


def test_a_broker_raises_its_limit_of_descriptors_to_the_hard_limit(tmp_path: Path) -> None:
    """Shells allow 1,024 by default, while 5,000 clients are common. The broker raises its limit,
    as the JVM does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard // 2), hard))
    try:
        with Oncelog(tmp_path, QUICK) as broker:
            assert resource.prlimit(broker.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
