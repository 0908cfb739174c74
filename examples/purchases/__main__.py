"""`make demo`: a pipeline of transactions processes the purchases, although processes are killed.

The demo starts a broker on an empty folder, loads all purchases, and lets three workers bill them.
The workers abort one transaction in twenty on purpose. The demo kills a worker and then the broker
with SIGKILL, starts them again, and counts the results.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples.purchases.audit import Audit, audit, billed
from examples.purchases.billing import INVOICES, PARTITIONS, PURCHASES, SHIPMENTS
from examples.purchases.data import Purchase, purchases
from examples.purchases.processes import Broker, Worker
from oncelog_client import Admin, NewTopic, Producer

WORKERS = 3
DEADLINE_S = 180
# The moments of the kills, as shares of the billed purchases.
KILL_WORKER_AT = 0.25
KILL_BROKER_AT = 0.55

console = Console()


async def load(servers: str, all_purchases: list[Purchase]) -> None:
    """Write all purchases to their topic. The purchases of a customer are in one partition."""
    async with Admin(servers) as admin:
        await admin.create_topics(
            [NewTopic(name, PARTITIONS, 1) for name in (PURCHASES, INVOICES, SHIPMENTS)]
        )
    async with Producer(servers, linger_ms=20, batch_size=65_536) as producer:
        sent = [
            await producer.send(
                PURCHASES, key=all_purchase.customer.encode(), value=all_purchase.encode()
            )
            for all_purchase in all_purchases
        ]
        await asyncio.gather(*sent)


async def run(broker: Broker, workers: list[Worker], total: int) -> Counter[str]:
    """Wait until every purchase is billed. Kill processes meanwhile, and return the number of
    kills. Raises TimeoutError."""
    kills: Counter[str] = Counter()
    deadline = time.monotonic() + DEADLINE_S
    columns = (TextColumn("billing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("billing", total=total)
        done = 0
        while done < total:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{total - done} purchases are not billed after {DEADLINE_S} s")
            done = max(done, await billed(broker.address))
            progress.update(bar, completed=done)
            if done > total * KILL_WORKER_AT and not kills["worker"]:
                kills["worker"] += 1
                workers[0].kill()
                console.print("  kill -9 of worker 0, in the middle of its work; started again")
                workers[0].start()
            elif done > total * KILL_BROKER_AT and not kills["broker"]:
                kills["broker"] += 1
                broker.kill()
                console.print("  kill -9 of the broker; started again on the same files")
                broker.start()
            await asyncio.sleep(0.05)
    return kills


def report(
    result: Audit, workers: list[Worker], kills: Counter[str], total: int, seconds: float
) -> None:
    counts: Counter[str] = sum((worker.counts for worker in workers), Counter())
    table = Table(title="purchases -> invoices + shipments, exactly once", show_header=False)
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in (
        ("purchases", f"{total:,}"),
        ("invoices and shipments", f"{result.results:,}"),
        ("transactions committed", f"{counts['committed']:,}"),
        ("transactions aborted on purpose", f"{counts['aborted']:,}"),
        ("kill -9 of a worker / of the broker", f"{kills['worker']} / {kills['broker']}"),
        ("duplicates", str(result.duplicates)),
        ("losses", str(result.losses)),
        ("wrong amounts", str(result.wrong)),
        ("purchases a second, kills included", f"{total / seconds:,.0f}"),
    ):
        table.add_row(name, value)
    console.print(table)
    for example in result.examples:
        console.print(example)


async def demo(folder: Path, module: str) -> bool:
    all_purchases = list(purchases())
    total = len(all_purchases)
    broker = Broker(folder / "data")
    broker.start()
    workers: list[Worker] = []
    try:
        console.print(f"broker on {broker.address}, loading {total:,} purchases")
        await load(broker.address, all_purchases)
        workers = [Worker(module, broker.address, number) for number in range(WORKERS)]
        began = time.monotonic()
        for worker in workers:
            worker.start()
        kills = await run(broker, workers, total)
        seconds = time.monotonic() - began
        for worker in workers:
            worker.stop()
        result = await audit(broker.address, all_purchases)
        report(result, workers, kills, total, seconds)
    finally:
        for worker in workers:
            worker.stop()
        broker.stop()
    return result.passed


@click.command()
@click.option(
    "--client",
    type=click.Choice(["oncelog", "confluent"]),
    default="oncelog",
    help="The client that the workers use.",
)
def main(client: str) -> None:
    """Bill 69,659 purchases exactly once, although kill -9 ends a worker and the broker."""
    module = {"oncelog": "worker", "confluent": "worker_confluent"}[client]
    with tempfile.TemporaryDirectory(prefix="oncelog-demo-") as folder:
        try:
            passed = asyncio.run(demo(Path(folder), f"examples.purchases.{module}"))
        except (TimeoutError, FileNotFoundError) as error:
            console.print(f"[red]{error}[/red]")
            passed = False
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
