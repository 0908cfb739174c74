"""Our quotas throttle exactly as Kafka's quota managers, which run in the same test."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.quotas.traces import Trace, trace
from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import KafkaUnavailable, class_archive, classpath, java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS

TRACES: Final = 10_000
TIMEOUT_S: Final = 120.0


def kafkas_results(traces: list[Trace], folder: Path) -> list[list[int]]:
    try:
        jars = classpath()
        classes = compiled(Path(__file__).with_name("QuotaOracle.java"), jars)
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be run: {reason}")
    (folder / "traces").write_text("".join(json.dumps(t.to_json()) + "\n" for t in traces))
    options = [*TEST_JVM_OPTIONS, *class_archive().options, "-Dorg.apache.logging.log4j.level=OFF"]
    command = [java(), *options, "-cp", f"{jars}:{classes}", "QuotaOracle"]
    subprocess.run(
        [*command, str(folder / "traces"), str(folder / "results")],
        check=True, timeout=TIMEOUT_S, capture_output=True,
    )  # fmt: skip
    return [json.loads(line) for line in (folder / "results").read_text().splitlines()]


def test_every_throttle_time_is_kafkas_to_the_millisecond(tmp_path: Path) -> None:
    """Limits at all levels of users and client ids, which change between the requests."""
    traces = [trace(seed) for seed in range(TRACES)]
    theirs = kafkas_results(traces, tmp_path)
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
