"""Apache Kafka's metrics as Prometheus gets them, by the rules of jmx_exporter's example for Kafka.

A metric without a `name` has no rule there, so its name has the exporter's default format.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.harness.kafka.tools import run_tool

_LINE = re.compile(r"(kafka[\w.]*):([^=]+=.*?):([\w-]+)=(.*)")

_PERCENTILE = re.compile(r"(\d+)thPercentile")

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Exported(NamedTuple):
    """One sample."""

    name: str
    labels: frozenset[tuple[str, str]]
    value: float


def jvm_options(port: int) -> tuple[str, ...]:
    """Return the options that make a JVM serve JMX on this local port."""
    remote = "-Dcom.sun.management.jmxremote"
    return (
        "-Djava.rmi.server.hostname=127.0.0.1",
        f"{remote}.port={port}",
        f"{remote}.rmi.port={port}",
        f"{remote}.host=127.0.0.1",
        f"{remote}.authenticate=false",
        f"{remote}.ssl=false",
    )


def scraped(port: int) -> Samples:
    """Return all metrics of a running Kafka. Raises ToolFailed, KafkaUnavailable."""
    url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
    printed = run_tool("jmx", "--jmx-url", url, "--one-time", "--report-format", "properties")
    samples = (exported(line) for line in printed.lines)
    return {(sample.name, sample.labels): sample.value for sample in samples if sample is not None}


def exported(line: str) -> Exported | None:
    """Read a line of JmxTool, `domain:type=T,name=N,key=value:Attribute=value`. Return None for a
    metric that the exporter omits."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    domain, properties, attribute, text = match.groups()
    keys = dict(part.split("=", 1) for part in properties.split(",") if "=" in part)
    try:
        value = float(text)
    except ValueError:
        return None
    kind, name = keys.pop("type", ""), keys.pop("name", None)
    percentile = _PERCENTILE.fullmatch(attribute)
    if percentile is not None:
        keys["quantile"] = f"0.{percentile[1]}"
    elif name is None:
        name = attribute
    elif attribute == "Count" and "PerSec" in name:
        name = re.sub(r"PerSec\w*$", "_total", name)
    elif attribute != "Value":
        return None
    full = re.sub(r"\W", "_", f"{domain}_{kind}_{name}").lower()
    return Exported(full, frozenset(keys.items()), value)
