"""Both tools of a name, each with its broker."""

from __future__ import annotations

import pytest

from tests.harness.broker import Oncelog
from tests.harness.kafka.compared import ToolPair
from tests.harness.kafka.driver import JavaDriver
from tests.harness.kafka.kafka import Kafka


@pytest.fixture(scope="session")
def tools(kafka: Kafka, running_oncelog: Oncelog, java_driver: JavaDriver) -> ToolPair:
    return ToolPair(java_driver, kafka.address, running_oncelog.address)
