"""Our quotas throttle exactly as Kafka's quota managers, which run in the same test."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.conformance.quotas import connections
from tests.conformance.quotas.traces import trace
from tests.examples import drawn
from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import KafkaUnavailable, class_archive, classpath, java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS

TRACES: Final = drawn(10_000)
CONNECTION_TRACES: Final = drawn(1_000)
TIMEOUT_S: Final = 120.0


def kafkas_results(oracle: str, traces: list[object], folder: Path) -> list[list[int]]:
    """Return the results of a Java class for traces, which are values for JSON."""
    try:
        jars = classpath()
        classes = compiled(Path(__file__).with_name(f"{oracle}.java"), jars)
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be run: {reason}")
    (folder / "traces").write_text("".join(json.dumps(trace) + "\n" for trace in traces))
    options = [*TEST_JVM_OPTIONS, *class_archive().options, "-Dorg.apache.logging.log4j.level=OFF"]
    command = [java(), *options, "-cp", f"{jars}:{classes}", oracle]
    subprocess.run(
        [*command, str(folder / "traces"), str(folder / "results")],
        check=True, timeout=TIMEOUT_S, capture_output=True,
    )  # fmt: skip
    return [json.loads(line) for line in (folder / "results").read_text().splitlines()]


def test_every_throttle_time_is_kafkas_to_the_millisecond(tmp_path: Path) -> None:
    """Limits at all levels of users and client ids, which change between the requests."""
    traces = [trace(seed) for seed in range(TRACES)]
    theirs = kafkas_results("QuotaOracle", [each.to_json() for each in traces], tmp_path)
    assert len(theirs) == TRACES
    different = [
        (each.to_json(), ours, measured)
        for each, measured in zip(traces, theirs, strict=True)
        if (ours := each.results()) != measured
    ]
    assert not different, different[0]
    throttled = sum(result != 0 for results in theirs for result in results)
    asked = sum(len(results) for results in theirs)
    # A test in which nearly every request gets the same result would find little.
    assert 0.2 < throttled / asked < 0.9


def test_every_wait_of_a_new_connection_is_kafkas_to_the_millisecond(tmp_path: Path) -> None:
    """Limits of the broker, of its listeners and of addresses. Clients do not delay the listener of
    brokers, if there is another listener."""
    traces = [connections.trace(seed) for seed in range(CONNECTION_TRACES)]
    theirs = kafkas_results(
        "ConnectionOracle", [msgspec.to_builtins(each) for each in traces], tmp_path
    )
    assert len(theirs) == CONNECTION_TRACES
    different = [
        (msgspec.to_builtins(each), ours, measured)
        for each, measured in zip(traces, theirs, strict=True)
        if (ours := each.results()) != measured
    ]
    assert not different, different[0]
    waits = [wait for results in theirs for wait in results[::2]]
    throttles = [throttle for results in theirs for throttle in results[1::2]]
    assert 0.2 < sum(map(bool, waits)) / len(waits) < 0.9
    assert 0.05 < sum(map(bool, throttles)) / len(throttles) < 0.9
