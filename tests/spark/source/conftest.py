"""The brokers that the source reads from: oncelog, and Apache Kafka as the control."""

from __future__ import annotations

import pytest

from tests.spark.topics import Topics


@pytest.fixture(params=["oncelog", "kafka"])
def log(request: pytest.FixtureRequest) -> Topics:
    """The topics of either broker: a test must pass on both."""
    found: Topics = request.getfixturevalue(
        "topics" if request.param == "oncelog" else "kafka_topics"
    )
    return found
