"""The run of the job: the moments of the kills, of the restarts, and of the end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.purchases.processes import Broker
from examples.purchases_spark.feed import INVOICES, REVENUE, SHIPMENTS
from examples.purchases_spark.processes import Driver, kill_task_worker
from examples.purchases_spark.watch import Kill, Watch

DEADLINE_S: Final = 600.0
# The kill of the driver needs one restart. Each other kill may end a query, and with it the job.
MAX_RESTARTS: Final = 4
# PLAN: which process is killed when this share of the purchases is billed.
WORKER, DRIVER, BROKER = "Python worker", "driver", "broker"
PLAN: Final = ((0.15, WORKER), (0.4, DRIVER), (0.7, BROKER))
# The kill of an idle worker has no effect, so the demo kills workers until a task fails.
KILLS_OF_WORKERS: Final = 5


class JobFailed(Exception):
    """The job is not done in time, or had to be restarted too often. The message has the end of the
    driver's log."""


@dataclass(slots=True)
class Run:
    """A run: the number of purchases and days to process, and the kills and restarts so far."""

    broker: Broker
    driver: Driver
    watch: Watch
    purchases: int
    days: int
    console: Console
    kills: list[Kill] = field(default_factory=list)
    restarts: int = 0

    async def to_its_end(self) -> None:
        """Wait until every purchase is billed and every day has its revenue. Raises JobFailed."""
        plan = [*PLAN]
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self.console) as progress:
            bills = progress.add_task("invoices and shipments", total=2 * self.purchases)
            days = progress.add_task("revenue of a day", total=self.days)
            while not self._done():
                billed = len(self.watch.counts[INVOICES])
                progress.update(bills, completed=billed + len(self.watch.counts[SHIPMENTS]))
                progress.update(days, completed=len(self.watch.counts[REVENUE]))
                if plan and billed > plan[0][0] * self.purchases:
                    await self._kill(plan.pop(0)[1])
                self._look_after_driver()
                await asyncio.sleep(0.05)
            progress.update(bills, completed=2 * self.purchases)
            progress.update(days, completed=self.days)

    def _done(self) -> bool:
        if self.watch.clock() > DEADLINE_S:
            raise JobFailed(f"not done after {DEADLINE_S:g} s\n{self.driver.last_words()}")
        counts = self.watch.counts
        return (
            len(counts[INVOICES]) == len(counts[SHIPMENTS]) == self.purchases
            and len(counts[REVENUE]) == self.days
        )

    async def _kill(self, what: str) -> None:
        self.kills.append(Kill(self.watch.clock(), what, len(self.watch.batches)))
        self.console.print(f"  {self.watch.clock():5.1f} s  kill -9 of {_ARTICLES[what]}")
        await asyncio.to_thread(_KILLS[what], self)

    def _look_after_driver(self) -> None:
        """Start the job again from its checkpoints, if it has ended. Raises JobFailed after
        `MAX_RESTARTS`."""
        if not self.driver.is_running:
            self.restarts += 1
            if self.restarts > MAX_RESTARTS:
                raise JobFailed(f"the job does not run\n{self.driver.last_words()}")
            self.console.print(f"  {self.watch.clock():5.1f} s  the job is started again")
            self.driver.start()


def _kill_worker(run: Run) -> None:
    lost = run.driver.lost_tasks()
    for _ in range(KILLS_OF_WORKERS):
        for executor in run.driver.executors():
            if kill_task_worker(executor) and run.driver.wait_for_lost_task(lost, timeout_s=1.5):
                return


def _kill_driver(run: Run) -> None:
    run.driver.kill()


def _kill_broker(run: Run) -> None:
    run.broker.kill()
    run.broker.start()


_KILLS: Final = {WORKER: _kill_worker, DRIVER: _kill_driver, BROKER: _kill_broker}
_ARTICLES: Final = {
    WORKER: "an executor's Python worker; Spark repeats its task",
    DRIVER: "the driver; it continues from its checkpoints",
    BROKER: "the broker; it continues from its files",
}
