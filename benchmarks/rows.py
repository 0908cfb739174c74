"""The rows of the table and their goals: `must` for this release, `aim` beyond it."""

from __future__ import annotations

from benchmarks.table import Better, Judged, Row

HIGHER, LOWER = Better.HIGHER, Better.LOWER
OWN = Judged.OWN
RATE, MB, US = "requests/s", "MB/s", "µs"

ROWS = (
    Row("start", "first_answer_ms", "exec to first answer", "ms", LOWER, must=1 / 10, aim=1 / 25),
    Row("start", "idle_mb", "resident memory, idle", "MB", LOWER, must=1 / 6, aim=1 / 12),
    Row("memory", "loaded_mb", "resident memory after all loads", "MB", LOWER, must=0.1, aim=0.04),
    Row("single", "p50_us", "one message at a time, acks=all, p50", US, LOWER, must=1.0, aim=0.7),
    Row("single", "p99_us", "one message at a time, acks=all, p99", US, LOWER, must=1.0, aim=0.7),
    Row("small", "per_s", "produce 100 B requests", RATE, HIGHER, must=1.0, aim=1.5),
    Row("produce16k", "mb_per_s", "produce 16 KB batches", MB, HIGHER, must=1.4, aim=1.9),
    Row("produce1m", "mb_per_s", "produce 1 MB batches", MB, HIGHER, must=1.4, aim=1.9),
    Row("fetch1m", "mb_per_s", "fetch 1 MB", MB, HIGHER, must=1.0, aim=1.5),
    Row("rd1k", "cpu_s_per_gb", "broker CPU, produce 1 KB", "s/GB", LOWER, must=0.9, aim=0.7),
    Row("consume1k", "cpu_s_per_gb", "broker CPU, consume 1 KB", "s/GB", LOWER, must=0.8, aim=0.5),
    Row("rd100", "per_s", "librdkafka produces 100 B", "messages/s", HIGHER, must=1.0),
    Row("rd1k", "per_s", "librdkafka produces 1 KB", "messages/s", HIGHER, must=1.0),
    Row("rdtxn", "per_s", "librdkafka transactions", "/s", HIGHER, must=1.15, aim=1.3),
    Row("rdtxn", "p99_us", "librdkafka transactions, p99", US, LOWER),
    Row("txn1", "per_s", "transactions, 1 producer", "/s", HIGHER, must=1.15, aim=1.3),
    Row("txn1", "p99_us", "transactions, 1 producer, p99", US, LOWER),
    Row(
        "txn1",
        "retries",
        "CONCURRENT_TRANSACTIONS seen",
        "answers",
        LOWER,
        OWN,
        must=0,
        aim=0,
    ),
    Row("txn16", "per_s", "transactions, 16 producers", "/s", HIGHER, must=2.0, aim=3.5),
    Row("txn16", "p99_us", "transactions, 16 producers, p99", US, LOWER, must=0.3, aim=0.1),
    Row("txn16", "cpu_us", "broker CPU per transaction", US, LOWER, must=0.5, aim=0.25),
    Row("txn1v1", "per_s", "version 1, 1 producer", "/s", HIGHER, must=1.15, aim=1.3),
    Row("txn16v1", "per_s", "version 1, 16 producers", "/s", HIGHER),
    Row("txn16v1", "p99_us", "version 1, 16 producers, p99", US, LOWER),
    Row("txn16v1", "cpu_us", "broker CPU per transaction, version 1", US, LOWER),
    Row("lost", "at_100_ms", "lost to 100 ms transactions", "%", LOWER, OWN, must=5, aim=3),
    Row("lost", "at_10_ms", "lost to 10 ms transactions", "%", LOWER, OWN, must=25, aim=16),
    Row("partitions", "slower", "10,000 partitions: latency, times", "x", LOWER, OWN, must=1.5),
    Row("partitions", "kb_each", "memory of a partition", "KB", LOWER),
    Row("producers", "slower", "10,000 producer ids: latency, times", "x", LOWER, OWN, must=1.5),
    Row("producers", "kb_each", "memory of a producer id", "KB", LOWER),
    Row("idle", "slower", "5,000 idle connections: latency, times", "x", LOWER, OWN, must=1.5),
    Row("idle", "kb_each", "memory of an idle connection", "KB", LOWER),
    Row("compaction", "p99_us", "one message at a time during compaction, p99", US, LOWER),
    Row("compaction", "slower", "compaction at full speed: p99, times", "x", LOWER, OWN, must=2.0),
)
