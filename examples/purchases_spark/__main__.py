"""`make demo`: the Spark job on all purchases, with kills of its processes and a count at the end.

The demo starts a broker on an empty folder, streams the shop's purchases into it, and runs the job
beside it. It kills a Python worker of the executor, the driver and the broker with SIGKILL. It
starts the driver and the broker again, on the same checkpoints and files.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console

from examples.purchases.data import purchases
from examples.purchases.processes import Broker
from examples.purchases_spark.audit import audit_all, days
from examples.purchases_spark.cluster import LOCAL, ClusterFailed, Place, Standalone
from examples.purchases_spark.feed import create_topics, feed
from examples.purchases_spark.picture import draw
from examples.purchases_spark.processes import Driver
from examples.purchases_spark.report import report
from examples.purchases_spark.run import JobFailed, Run
from examples.purchases_spark.watch import Watch
from oncelog_client.spark.requirements import MissingJava, check_java

FEED_S = 45.0
OTHER_DEMO = "Without Java: make demo-client, the same purchases with oncelog's own client."

console = Console()


async def demo(folder: Path, pictures: Path, place: Place) -> bool:
    """Run the demo. Return True if every result exists once, with the right amounts. Raises
    JobFailed."""
    all_purchases = list(purchases())
    broker = Broker(folder / "data")
    broker.start()
    driver = Driver(place, broker.address, folder)
    began = time.monotonic()
    watch = Watch(broker.address, lambda: time.monotonic() - began)
    expected = days(all_purchases)
    run = Run(broker, driver, watch, len(all_purchases), len(expected), console)
    try:
        await create_topics(broker.address)
        console.print(f"broker on {broker.address}, Spark on {place.master}")
        driver.start()
        looking = [asyncio.create_task(watch.results()), asyncio.create_task(watch.commits())]
        feeding = asyncio.create_task(
            feed(broker.address, all_purchases, FEED_S, watch.purchases_came)
        )
        await run.to_its_end()
        await feeding
        for task in looking:
            task.cancel()
        driver.stop()
        result, written = await audit_all(broker.address, all_purchases)
    finally:
        driver.stop()
        broker.stop()
    report(console, run, result, written, watch.clock())
    for path in draw(pictures, written, expected, watch, run.kills):
        console.print(path)
    return result.passed


@click.command()
@click.option("--cluster", is_flag=True, help="Run a standalone master and two workers.")
@click.option(
    "--pictures",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/demo"),
    help="The folder of the picture.",
)
def main(cluster: bool, pictures: Path) -> None:
    """Bill 69,659 purchases with Spark, exactly once, although kill -9 ends running processes."""
    try:
        check_java()
    except MissingJava as missing:
        console.print(f"{missing}\n{OTHER_DEMO}", highlight=False, soft_wrap=True)
        sys.exit(1)
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="oncelog-demo-") as name, ExitStack() as stack:
        folder = Path(name)
        try:
            place = stack.enter_context(Standalone(folder)) if cluster else LOCAL
            passed = asyncio.run(demo(folder, pictures, place))
        except (ClusterFailed, JobFailed) as failed:
            console.print(f"[red]{failed}[/red]")
            passed = False
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
