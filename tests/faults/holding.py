"""Measurements of the CPU time for which a broker keeps a client waiting. Other processes of the
computer do not count."""

from __future__ import annotations

import time
from pathlib import Path

from oncelog.testing.wire import Wire
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from tests.harness.broker import Oncelog

# Maximum CPU time in ms for which one request may keep the broker busy, whatever is in the request.
# Measured: up to 120 ms on a busy computer, on which the fixed work of `cpu_limit_ms` took 22 ms.
_CPU_MS = 400.0
_YARDSTICK_MS = 22.0


def cpu_limit_ms(quick_ms: float = _CPU_MS) -> float:
    """Return the CPU time for which one request may keep the broker busy: `quick_ms` on a quick
    computer. A virtual computer can become several times slower for minutes, and its CPU time then
    includes stolen time. Therefore the limit grows with the time of a fixed work, which this thread
    does now."""
    begun = time.thread_time()
    for number in range(200_000):
        str(number)
    taken_ms = (time.thread_time() - begun) * 1000
    return quick_ms * max(taken_ms / _YARDSTICK_MS, 1)


def cpu_ms(broker: Oncelog) -> float:
    """Return the CPU time of the broker's main thread since its start."""
    return int(Path(f"/proc/{broker.pid}/schedstat").read_text().split()[0]) / 1e6


def bytes_read(broker: Oncelog) -> int:
    """Return the number of bytes in all read calls of the broker, from files and pipes. A busy
    computer does not change this number."""
    lines = Path(f"/proc/{broker.pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def held_ms(broker: Oncelog, bystander: Wire) -> float:
    """Return the CPU time in ms that the broker uses until a small request of `bystander` gets its
    response. Time in which this thread runs or waits for a processor does not count, because the
    response may already have arrived."""
    awake, before = _awake_ms(), cpu_ms(broker)
    assert bystander.call(ApiVersionsRequest("bystander", "1"), 3).api_keys
    return max(cpu_ms(broker) - before - (_awake_ms() - awake), 0.0)


def _awake_ms() -> float:
    """Return the time that this thread has spent on a processor or in the queue for a processor."""
    running, queued, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return (int(running) + int(queued)) / 1e6
