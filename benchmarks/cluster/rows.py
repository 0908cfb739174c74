"""The rows of the result table, with the limit of each (`must`) and a goal beyond it (`aim`)."""

from __future__ import annotations

from typing import Final

from benchmarks.table import Better, Judged, Row

HIGHER, LOWER = Better.HIGHER, Better.LOWER
OWN, RATIO = Judged.OWN, Judged.RATIO
MS, US, MB, CPU = "ms", "µs", "MB/s", "s/GB"

ROWS: Final = (
    Row("single", "p50_us", "one message at a time, p50", US, LOWER, RATIO, 1.0, 0.7),
    Row("single", "p99_us", "one message at a time, p99", US, LOWER, RATIO, 1.2, 0.9),
    Row("offered", "p50_us", "offered load, p50", US, LOWER, RATIO, 1.0, 0.7),
    Row("offered", "p99_us", "offered load, p99", US, LOWER, RATIO, 1.0, 0.8),
    Row("offered", "p999_us", "offered load, p99.9", US, LOWER, RATIO, 1.2, 1.0),
    Row("small", "per_s", "produce 100 B requests to 3 leaders", "/s", HIGHER, RATIO, 0.9, 1.3),
    Row("small", "cpu_us", "CPU of all processes per request", US, LOWER),
    Row("produce16k", "mb_per_s", "produce 16 KB batches", MB, HIGHER, RATIO, 0.9, 1.2),
    Row("produce16k", "cpu_s_per_gb", "CPU, 16 KB batches", CPU, LOWER, RATIO, 1.0, 0.75),
    Row("produce1m", "mb_per_s", "produce 1 MB batches", MB, HIGHER, RATIO, 0.8, 1.0),
    Row("produce1m", "cpu_s_per_gb", "CPU, 1 MB batches", CPU, LOWER, RATIO, 1.0, 0.75),
    Row("start", "idle_mb", "memory of all processes, idle", "MB", LOWER, RATIO, 1 / 4, 1 / 6),
    Row("memory", "loaded_mb", "memory after all loads", "MB", LOWER, RATIO, 1 / 5, 1 / 8),
    Row("idle", "cpu_share", "CPU, idle with 1,000 partitions", "%", LOWER, RATIO, 1.0, 0.5),
    Row("txn1", "per_s", "transactions over 3 leaders, 1 producer", "/s", HIGHER, RATIO, 2, 5),
    Row("txn16", "per_s", "transactions, 16 producers", "/s", HIGHER, RATIO, 1.3, 2.5),
    Row("txn16", "p99_us", "transactions, 16 producers, p99", US, LOWER, RATIO, 0.6, 0.3),
    Row("txn16", "cpu_us", "CPU per transaction", US, LOWER, RATIO, 0.7, 0.45),
    Row("kill", "gap_ms", "kill -9 of a leader, session 9 s", MS, LOWER, RATIO, 1.0, 0.15),
    Row("kill2s", "gap_ms", "kill -9 of a leader, session 2 s", MS, LOWER, OWN, 3_500, 1_500),
    Row("stop", "gap_ms", "stop of a leader", MS, LOWER, OWN, 500, 100),
    Row("elect", "served_ms", "kill -9: 1,000 partitions served", MS, LOWER, OWN, 10_000, 9_300),
    Row("catchup", "mb_per_s", "catching up after a stop", MB, HIGHER, RATIO, 0.8, 1.2),
)
