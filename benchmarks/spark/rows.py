"""The rows of the table and their goals. The names of loads are those of `loads.py`."""

from __future__ import annotations

from typing import Final

from benchmarks.table import Better, Row

HIGHER, LOWER = Better.HIGHER, Better.LOWER
RATE, MS = "rows/s", "ms"

SOURCE_SLOWER: Final = 1.2
SINK_SLOWER: Final = 1.3
SECURED_SLOWER: Final = 1.2

MS_FIGURE: Final = "triggerExecution"
"""Spark's name in `durationMs` for the time of a whole micro-batch."""

ROWS = (
    Row("read100", "rows_per_s", "batch read, 100 B", RATE, HIGHER),
    Row("read1k", "rows_per_s", "batch read, 1 KB", RATE, HIGHER),
    Row("source100k", "rows_per_s", "source, micro-batch of 100 k rows", RATE, HIGHER, must=1.0),
    Row("source100", MS_FIGURE, "source, micro-batch of 100 rows", MS, LOWER, must=SOURCE_SLOWER),
    Row("source10k", MS_FIGURE, "source, micro-batch of 10 k rows", MS, LOWER, must=SOURCE_SLOWER),
    Row("source100k", MS_FIGURE, "source, of 100 k rows", MS, LOWER, must=SOURCE_SLOWER),
    Row("sink100", MS_FIGURE, "sink, micro-batch of 100 rows", MS, LOWER, must=SINK_SLOWER),
    Row("sink10k", MS_FIGURE, "sink, micro-batch of 10 k rows", MS, LOWER, must=SINK_SLOWER),
    Row("sink100k", MS_FIGURE, "sink, micro-batch of 100 k rows", MS, LOWER, must=SINK_SLOWER),
    Row("sink100k", "rows_per_s", "sink, micro-batch of 100 k rows", RATE, HIGHER),
    Row("keyless100k", MS_FIGURE, "sink, 100 k rows without keys", MS, LOWER, must=SINK_SLOWER),
    Row("write1k", "rows_per_s", "batch write, 1 KB", RATE, HIGHER),
    Row("noop100", MS_FIGURE, "neither: Spark alone, 100 rows", MS, LOWER),
    Row("noop100k", MS_FIGURE, "neither: Spark alone, 100 k rows", MS, LOWER),
)

SECURED_ROWS = (
    Row("source100", MS_FIGURE, "source, micro-batch of 100 rows", MS, LOWER, must=SECURED_SLOWER),
    Row("sink100", MS_FIGURE, "sink, micro-batch of 100 rows", MS, LOWER, must=SECURED_SLOWER),
    Row("source10k", MS_FIGURE, "source, micro-batch of 10 k rows", MS, LOWER),
    Row("sink10k", MS_FIGURE, "sink, micro-batch of 10 k rows", MS, LOWER),
)
"""Rows of our format over SASL_SSL, beside our format without security."""
