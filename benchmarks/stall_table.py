"""The table of the stalls: a row for each load, with the limits that it misses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

# Limits for the p99 of a Produce during any load, and for the longest stall of the event loop.
MUST_P99_MS: Final = 50.0
MUST_STALL_MS: Final = 100.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A row of the result: the duration of the load (s), and the latencies of the small requests
    during the load (ms)."""

    load: str
    seconds: float
    must_seconds: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    longest_ms: float | None = None
    stall_ms: float | None = None
    failure: str = ""

    @property
    def misses(self) -> list[str]:
        """Return the failure of the load, if any, and the goals that the row misses."""
        found = [self.failure] if self.failure else []
        if self.must_seconds is not None and self.seconds > self.must_seconds:
            found.append(f"{self.must_seconds:.0f} s")
        if self.p99_ms is not None and self.p99_ms > MUST_P99_MS:
            found.append(f"p99 {MUST_P99_MS:.0f} ms")
        if self.stall_ms is not None and self.stall_ms > MUST_STALL_MS:
            found.append(f"stall {MUST_STALL_MS:.0f} ms")
        return found


def show(rows: Sequence[Measured], *, as_markdown: bool) -> None:
    """Print the table. The headings have the limits, and the last column the missed limits."""
    headings = [
        "load", "s", "p50 ms", f"p99 ms (must {MUST_P99_MS:.0f})", "max ms",
        f"stall ms (must {MUST_STALL_MS:.0f})", "must s", "misses",
    ]  # fmt: skip
    lines = [
        [
            row.load,
            f"{row.seconds:.2f}",
            *(
                _in_ms(latency)
                for latency in (row.p50_ms, row.p99_ms, row.longest_ms, row.stall_ms)
            ),
            "" if row.must_seconds is None else f"{row.must_seconds:.0f}",
            ", ".join(row.misses),
        ]
        for row in rows
    ]
    if as_markdown:
        print("| " + " | ".join(headings) + " |\n|" + "---|" * len(headings))
        for line in lines:
            print("| " + " | ".join(line) + " |")
        return
    table = Table(*headings)
    for line in lines:
        table.add_row(*line)
    Console(width=160).print(table)


def _in_ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
