"""A shipments consumer with effects outside the log: it sends parcels, here lines of a file."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from examples.purchases.billing import SHIPMENTS
from oncelog.testing.proxy import Drop
from oncelog_client import Consumer
from oncelog_protocol.apis import ApiKey
from tests.deep_dive.pipeline import DEADLINE_S, Pipeline

GROUP = "parcels"


class Outside:
    """The outside world, and the process that changes it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._file = pipeline.broker.directory / "parcels"
        self._file.touch()

    def calls(self) -> int:
        """Return the number of sent parcels."""
        return len(self._lines())

    def run_killed_before_its_commit(self) -> set[str]:
        """Kill a process before its commit. Return the parcels that it had sent."""
        committing = Drop(cut=False)
        self._pipeline.proxy.on(ApiKey.OFFSET_COMMIT, committing, client_id=GROUP)
        with self._start() as process:
            committing.wait()
            process.kill()
        return set(self._lines())

    def run_to_the_end(self) -> set[str]:
        """Run the next process until it has sent all parcels. Return the parcels that it sent."""
        before = self.calls()
        with self._start() as process:
            self._pipeline.wait(lambda: self._is_done(before), "all parcels are sent")
            process.terminate()
            process.wait(DEADLINE_S)
        return set(self._lines()[before:])

    def _is_done(self, before: int) -> bool:
        return len(set(self._lines()[before:])) == len(self._pipeline.fed)

    def _lines(self) -> list[str]:
        # The last line may be incomplete.
        return self._file.read_text().split("\n")[:-1]

    def _start(self) -> subprocess.Popen[bytes]:
        address = self._pipeline.proxy.address
        return subprocess.Popen([sys.executable, "-m", __spec__.name, address, str(self._file)])


async def send_parcels(address: str, file: Path) -> None:
    """Poll, send and commit, without end."""
    consumer = Consumer(
        address,
        client_id=GROUP,
        group_id=GROUP,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
    )
    async with consumer:
        await consumer.subscribe([SHIPMENTS])
        while True:
            records = await consumer.poll(timeout_ms=200)
            if records:
                lines = [f"{record.partition} {record.offset}\n" for record in records]
                with file.open("a") as world:
                    world.writelines(lines)
                await consumer.commit()


if __name__ == "__main__":
    asyncio.run(send_parcels(sys.argv[1], Path(sys.argv[2])))
