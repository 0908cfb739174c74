"""Pipelines to be run into faults, on oncelog and on Apache Kafka."""

from __future__ import annotations

import pytest

from tests.broker import Oncelog
from tests.spark.pipeline import Pipeline

# Three purchases of each partition a micro-batch: both tasks write, and several batches come by.
LIMIT = {"maxOffsetsPerTrigger": "6"}


@pytest.fixture
def pipeline(broker: Oncelog, name: str, checkpoint: str) -> Pipeline:
    """One on oncelog, with a decision for all tasks of a micro-batch (A-group)."""
    return Pipeline(broker.address, name, checkpoint, source_options=LIMIT)
