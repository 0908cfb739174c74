"""The JVM with Kafka's SASL classes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.sasl.oracle import SaslOracle


@pytest.fixture(scope="module")
def oracle(kafka_jars: str) -> Iterator[SaslOracle]:
    with SaslOracle(kafka_jars) as running:
        yield running
