"""The pytest plugin in a suite that runs against Apache Kafka."""

from __future__ import annotations

from pathlib import Path

from tests.harness.kafka.kafka import Kafka
from tests.testing.test_plugin import INNER_SUITE, outcomes, run


def test_the_suite_of_an_application_passes_on_apache_kafka_without_its_faults(
    tmp_path: Path, kafka: Kafka
) -> None:
    done = run(tmp_path, INNER_SUITE.read_text(), "--oncelog-broker", kafka.address)
    assert outcomes(done.stdout) == {"passed": 4, "skipped": 4}, done.stdout
    assert "the broker of --oncelog-broker has no faults" in done.stdout
