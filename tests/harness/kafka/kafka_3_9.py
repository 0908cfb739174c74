"""Apache Kafka 3.9, the last release before 4.0. `oncelog storage import` takes its data
directories, too."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.harness.kafka.jars import cache_directory, jars_of, java
from tests.harness.kafka.kafka import CLUSTER_ID, TEST_JVM_OPTIONS, Kafka
from tests.harness.kafka.tools import TOOL_TIMEOUT_S

KAFKA_3_9 = "3.9.2"
_POM = Path(__file__).with_name("kafka_3_9.pom.xml")


class Kafka39(Kafka):
    """A process of Apache Kafka 3.9. Its jars are fetched at first use."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings, TEST_JVM_OPTIONS)

    def _class_path(self) -> str:
        return f"{jars_of(_POM, cache_directory().with_name(f'kafka-{KAFKA_3_9}'))}/*"

    def _format(self) -> None:
        command = [java(), *TEST_JVM_OPTIONS, "-cp", self._class_path(), "kafka.tools.StorageTool"]
        subprocess.run(
            [*command, "format", "-t", CLUSTER_ID, "-c", str(self._properties)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TOOL_TIMEOUT_S,
            check=True,
        )
