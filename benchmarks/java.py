"""Loads of Java's client, by the perf tools that Kafka's users know."""

from __future__ import annotations

import itertools
import random
import string
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.bench import KB_VALUE, Bench, Cores, Figures, Load, Round
from benchmarks.filled import PARTITIONS, filled_topic
from benchmarks.loadgen import LoadFailed, run_program
from benchmarks.perf_tools import (
    consumed,
    consumer_command,
    produced,
    producer_command,
    tls_settings,
)

DEFAULTS: Final[Mapping[str, str]] = {}
PLAIN: Final[Mapping[str, str]] = {"enable.idempotence": "false"}
COMMIT_MS: Final = 10
# The client waits for each commit, so a round of transactions has only a fourth of the records of
# another round.
SHARE_OF_TRANSACTIONS: Final = 4
_LINES: Final = 4_096

_numbers = itertools.count()


def produce(value_bytes: int, settings: Mapping[str, str]) -> Load:
    """Return the load of kafka-producer-perf-test with these settings, otherwise Java's defaults,
    and eight partitions."""

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        payloads = write_payloads(bench.folder / f"{bench.target.name}.payloads", value_bytes)
        every = {**settings, **tls_settings(bench.target.tls)}

        def run(cores: Cores) -> Figures:
            with bench.target.topic(PARTITIONS) as topic:
                records = bench.pace.records
                command = producer_command(bench.address, topic, records, payloads, every)
                found = bench.with_cpu(lambda: produced(run_program(command, cores)))
            return found | {"cpu_s_per_gb": found["broker_cpu_s"] / (records * value_bytes / 1e9)}

        yield run

    return load


@contextmanager
def transactions(bench: Bench) -> Iterator[Round]:
    """kafka-producer-perf-test writes 1 KB messages, with a commit every 10 ms."""
    payloads = write_payloads(bench.folder / f"{bench.target.name}.payloads", KB_VALUE)
    records = bench.pace.records // SHARE_OF_TRANSACTIONS

    def run(cores: Cores) -> Figures:
        settings = {"transactional.id": f"bench-java-{next(_numbers)}"}
        words = [f"--transaction-duration-ms={COMMIT_MS}"]
        with bench.target.topic(PARTITIONS) as topic:
            command = producer_command(bench.address, topic, records, payloads, settings)
            return bench.with_cpu(lambda: produced(run_program([*command, *words], cores)))

    yield run


@contextmanager
def consume(bench: Bench) -> Iterator[Round]:
    """kafka-consumer-perf-test reads eight partitions of 1 KB messages, several times."""
    with filled_topic(bench) as filled:

        def run_pass(cores: Cores) -> Figures:
            group = f"bench-java-{next(_numbers)}"
            words = consumer_command(
                bench.address, filled.topic, filled.messages, group, tls_settings(bench.target.tls)
            )
            found = consumed(run_program(words, cores))
            if found["messages"] < filled.messages:
                raise LoadFailed(f"{found['messages']:,.0f} of {filled.messages:,} messages read")
            return found

        def run_passes(cores: Cores) -> Figures:
            rates = [run_pass(cores)["per_s"] for _ in range(filled.passes)]
            return {"per_s": len(rates) / sum(1 / rate for rate in rates)}

        def run(cores: Cores) -> Figures:
            found = bench.with_cpu(lambda: run_passes(cores))
            return found | {"cpu_s_per_gb": found["broker_cpu_s"] / filled.gigabytes}

        yield run


def write_payloads(path: Path, value_bytes: int) -> Path:
    """Write lines of `value_bytes` random letters. The tool splits its file at line ends."""
    randomness = random.Random(1)
    lines = (
        "".join(randomness.choices(string.ascii_letters, k=value_bytes)) for _ in range(_LINES)
    )
    path.write_text("\n".join(lines))
    return path
