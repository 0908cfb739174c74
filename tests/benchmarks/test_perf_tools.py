"""The output of Kafka's perf tools, as version 4.3.1 prints it."""

from __future__ import annotations

import pytest

from benchmarks.perf_tools import UnknownOutput, consumed, produced

PRODUCER = """\
Reading payloads from: payloads
Number of records read: 4096
Warmup first 2000 records. Steady state results will print after the complete test summary.
20000 records sent, 4786.979416 records/sec (0.46 MB/sec), 959.21 ms avg latency, \
1505.00 ms max latency, 1000 ms 50th, 1427 ms 95th, 1461 ms 99th, 1480 ms 99.9th.
18000 steady state records sent, 6076.975017 records/sec (0.58 MB/sec), 1025.52 ms avg latency, \
1480.00 ms max latency, 1077 ms 50th, 1428 ms 95th, 1462 ms 99th, 1480 ms 99.9th.

"""
CONSUMER = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-11-23 18:56:07:550, 2026-11-23 18:56:13:325, 1.9495, 0.3376, 20442, 3539.7403, \
4333, 1442, 1.3519, 14176.1442
"""


def test_the_figures_of_a_producer_exclude_its_warm_up() -> None:
    found = produced(PRODUCER)
    assert found == {"per_s": 6076.975017, "p50_us": 1_077_000.0, "p99_us": 1_462_000.0}


def test_the_rate_of_a_consumer_excludes_the_time_to_join() -> None:
    assert consumed(CONSUMER) == {"messages": 20442.0, "per_s": 14176.1442}


@pytest.mark.parametrize("output", ["", "WARN nothing, at all", CONSUMER.splitlines()[0]])
def test_other_output_is_refused(output: str) -> None:
    with pytest.raises(UnknownOutput):
        produced(output)
    with pytest.raises(UnknownOutput):
        consumed(output)
