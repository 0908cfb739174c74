"""PySpark 4.0.0 and its Kafka connector: a Python environment for both, and four jars."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.harness.kafka.jars import KafkaUnavailable, cache_directory, jars_of, java

SPARK_VERSION: Final = "4.0.0"
PYTHON: Final = Path(__file__).parents[3] / ".venv-connector/bin/python"

_POM = Path(__file__).with_name("pom.xml")


class ConnectorUnavailable(Exception):
    """The official connector cannot run here; the message says why."""


def python() -> str:
    """Return the Python with PySpark 4.0.0. Raises ConnectorUnavailable if that or Java is
    missing."""
    if not PYTHON.exists():
        raise ConnectorUnavailable(f"PySpark {SPARK_VERSION} is missing: run make test-connector")
    try:
        java()
    except KafkaUnavailable as reason:
        raise ConnectorUnavailable(str(reason)) from reason
    return str(PYTHON)


def jars() -> str:
    """Return the connector's jars for `spark.jars`, fetched at first use.

    Raises ConnectorUnavailable with the reason.
    """
    folder = cache_directory().with_name(f"spark-connector-{SPARK_VERSION}")
    try:
        return ",".join(str(jar) for jar in sorted(jars_of(_POM, folder).glob("*.jar")))
    except KafkaUnavailable as reason:
        raise ConnectorUnavailable(str(reason)) from reason
