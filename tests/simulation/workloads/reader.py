"""Readers of committed records. At random moments they start again at the beginning."""

from __future__ import annotations

from oncelog_client import Consumer
from tests.simulation.checking.history import Outcome
from tests.simulation.workloads.client import Client
from tests.simulation.workloads.reading import by_key


class Reader(Client):
    kind = "reader"

    async def work(self) -> None:
        consumer = Consumer(
            self.world.bootstrap,
            **self.settings(
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                fetch_max_wait_ms=self.rng.choice((50, 200)),
                max_partition_fetch_bytes=self.rng.choice((1, 500, 1 << 20)),
                fetch_min_bytes=self.rng.choice((1, 300)),
            ),
        )
        partitions = [*self.world.shared_partitions, *self.world.output_partitions]
        try:
            await consumer.start()
            await consumer.assign(partitions)
            self.world.recorder.assigned(self.me, map(str, partitions), from_start=True)
            for _ in range(self.rng.randint(3, 12)):
                if self.is_done:
                    return
                attempt = self.world.recorder.begin(self.me)
                self.done += 1
                try:
                    records = await consumer.poll(timeout_ms=150)
                except BaseException:
                    attempt.rewound = False
                    attempt.failed()
                    raise
                attempt.poll(by_key(records))
                attempt.end(Outcome.OK)
        finally:
            await consumer.close()
