"""The result of the demo `examples.purchases_spark`, as a table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from examples.purchases.audit import Audit
from examples.purchases_spark.audit import Day
from examples.purchases_spark.run import Run


def report(console: Console, run: Run, result: Audit, written: list[Day], seconds: float) -> None:
    table = Table(title="purchases -> Spark -> invoices, shipments, revenue", show_header=False)
    table.add_column("")
    table.add_column("", justify="right")
    sinks = [batch.sink for batch in run.watch.batches]
    rows = (
        ("purchases", f"{run.purchases:,}"),
        ("invoices and shipments", f"{result.results - len(written):,}"),
        ("days with their revenue", f"{len(written):,}"),
        ("revenue, dollars", f"{sum(day.cents for day in written) / 100:,.2f}"),
        (
            "committed micro-batches of the sinks bills / revenue",
            _two(sinks.count("bills"), sinks.count("revenue")),
        ),
        ("kill -9", ", ".join(kill.what for kill in run.kills)),
        ("failed attempts of tasks", str(run.driver.lost_tasks())),
        ("restarts of the job", str(run.restarts)),
        ("duplicates", str(result.duplicates)),
        ("losses", str(result.losses)),
        ("wrong amounts", str(result.wrong)),
        ("seconds in all", f"{seconds:.0f}"),
    )
    for name, value in rows:
        table.add_row(name, value)
    console.print(table)
    for example in result.examples:
        console.print(example)


def _two(first: int, second: int) -> str:
    return f"{first:,} / {second:,}"
