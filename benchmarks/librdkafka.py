"""Loads of librdkafka, which makes its own batches. `rdload.py` is the client's process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from benchmarks.bench import SMALL_VALUE, Bench, Cores, Figures, Load, Round
from benchmarks.filled import PARTITIONS, filled_topic


@contextmanager
def single(bench: Bench) -> Iterator[Round]:
    """Produce one message at a time. Each message waits for the confirmation of the previous
    one."""
    with bench.target.topic(1) as topic:

        def run(cores: Cores) -> Figures:
            words = [f"--size={SMALL_VALUE}", "--linger-ms=0"]
            found = bench.librdkafka("single", topic, cores, *words)
            return {"p50_us": found["p50_us"], "p99_us": found["p99_us"]} | found

        yield run


def produce(value_bytes: int, *words: str) -> Load:
    """Return the load of one producer with a large linger, which writes to eight partitions."""

    @contextmanager
    def load(bench: Bench) -> Iterator[Round]:
        def run(cores: Cores) -> Figures:
            limits = [f"--size={value_bytes}", f"--max-bytes={bench.pace.max_bytes}"]
            with bench.target.topic(PARTITIONS) as topic:
                found = bench.librdkafka(
                    "produce", topic, cores, f"--partitions={PARTITIONS}", *limits, *words
                )
            gigabytes = found["messages"] * value_bytes / 1e9
            cpu = found["broker_cpu_s"] / gigabytes
            return {"per_s": found["messages_per_s"], "cpu_s_per_gb": cpu}

        yield run

    return load


@contextmanager
def consume(bench: Bench) -> Iterator[Round]:
    """One consumer reads eight partitions of 1 KB messages from the start, several times."""
    with filled_topic(bench) as filled:

        def run(cores: Cores) -> Figures:
            found = bench.librdkafka(
                "consume",
                filled.topic,
                cores,
                f"--partitions={PARTITIONS}",
                f"--messages={filled.messages}",
                f"--passes={filled.passes}",
            )
            cpu = found["broker_cpu_s"] / filled.gigabytes
            return {"per_s": found["messages_per_s"], "cpu_s_per_gb": cpu}

        yield run


@contextmanager
def transactions(bench: Bench) -> Iterator[Round]:
    """One producer repeats a transaction of one message: begin, send, commit."""
    with bench.target.topic(1) as topic:

        def run(cores: Cores) -> Figures:
            words = [f"--size={SMALL_VALUE}", "--linger-ms=0"]
            found = bench.librdkafka("transactions", topic, cores, *words)
            return {"per_s": found["transactions_per_s"], "p99_us": found["p99_us"]} | found

        yield run


@contextmanager
def lost_to_transactions(bench: Bench) -> Iterator[Round]:
    """One producer sends 1 KB messages, first only as an idempotent producer, then in transactions.

    Linger is 0, because the client would otherwise add it to every transaction.
    """

    def run(cores: Cores) -> Figures:
        rates = {}
        for name, word in _COMMITS.items():
            with bench.target.topic(PARTITIONS) as topic:
                words = [f"--partitions={PARTITIONS}", "--linger-ms=0", word]
                found = bench.librdkafka("produce", topic, cores, *words)
            rates[name] = found["messages_per_s"]
        plain = rates["plain"]
        lost = {name: (1 - rate / plain) * 100 for name, rate in rates.items() if rate != plain}
        return {"per_s": plain} | lost

    yield run


_COMMITS: Mapping[str, str] = {
    "plain": "--idempotent",
    "at_100_ms": "--commit-ms=100",
    "at_10_ms": "--commit-ms=10",
}
