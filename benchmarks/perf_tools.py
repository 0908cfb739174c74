"""Java's kafka-producer-perf-test and kafka-consumer-perf-test: command lines, and their output."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.tls_brokers import TlsEndpoint
from tests.harness.kafka.jars import class_archive, classpath, java
from tests.harness.kafka.tools import TOOLS

# The options in Kafka's own scripts of these tools.
_JVM_OPTIONS: Final = ("-Xmx512m", "-server", "-XX:+UseG1GC")
# The first tenth of the records warms the client up.
_WARM_UP_SHARE: Final = 10
# Progress lines have the form of the summary. With an interval this long, the tool prints none.
_NO_REPORTS_MS: Final = 3_600_000

_SUMMARY: Final = re.compile(
    r"records sent, (?P<per_s>[\d.]+) records/sec .*?"
    r"(?P<p50>\d+) ms 50th, \d+ ms 95th, (?P<p99>\d+) ms 99th"
)


class UnknownOutput(Exception):
    """A tool printed an unexpected output. The message has this output."""


def _tool(name: str, arguments: Sequence[str]) -> list[str]:
    options = (*_JVM_OPTIONS, *class_archive().options, "-Dorg.apache.logging.log4j.level=ERROR")
    return [java(), *options, "-cp", classpath(), TOOLS[name], *arguments]


def producer_command(
    address: str, topic: str, records: int, payloads: Path, settings: Mapping[str, str]
) -> list[str]:
    """Return the command of a producer at full speed. It draws each record from the lines of
    `payloads`."""
    pairs = [f"{name}={value}" for name, value in settings.items()]
    return _tool(
        "producer-perf",
        [
            f"--bootstrap-server={address}",
            f"--topic={topic}",
            f"--num-records={records}",
            f"--warmup-records={records // _WARM_UP_SHARE}",
            "--throughput=-1",
            f"--payload-file={payloads}",
            f"--reporting-interval={_NO_REPORTS_MS}",
            *(["--command-property", *pairs] if pairs else []),
        ],
    )


def consumer_command(
    address: str, topic: str, records: int, group: str, settings: Mapping[str, str]
) -> list[str]:
    """Return the command of a consumer that reads `records` records of a topic from the start.
    `group` must be a new group."""
    pairs = [f"--command-property={name}={value}" for name, value in settings.items()]
    return _tool(
        "consumer-perf",
        [
            f"--bootstrap-server={address}",
            f"--topic={topic}",
            f"--num-records={records}",
            f"--group={group}",
            *pairs,
        ],
    )


def tls_settings(tls: TlsEndpoint | None) -> dict[str, str]:
    """Return the settings of a client of this listener, none for None."""
    if tls is None:
        return {}
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tls.authority),
    }


def produced(output: str) -> dict[str, float]:
    """Return the rate and latencies of the last summary, which excludes the warm-up. Raises
    UnknownOutput."""
    found = list(_SUMMARY.finditer(output))
    if not found:
        raise UnknownOutput(f"no summary of kafka-producer-perf-test: {output}")
    last = found[-1]
    return {
        "per_s": float(last["per_s"]),
        "p50_us": float(last["p50"]) * 1000,
        "p99_us": float(last["p99"]) * 1000,
    }


def consumed(output: str) -> dict[str, float]:
    """Return the number of messages and the fetch rate, without the time to join the group. Raises
    UnknownOutput."""
    lines = [line.split(", ") for line in output.splitlines() if "," in line]
    for heads, values in itertools.pairwise(lines):
        if heads[0] == "start.time" and len(heads) == len(values):
            row = dict(zip(heads, values, strict=True))
            return {
                "messages": float(row["data.consumed.in.nMsg"]),
                "per_s": float(row["fetch.nMsg.sec"]),
            }
    raise UnknownOutput(f"no figures of kafka-consumer-perf-test: {output}")
