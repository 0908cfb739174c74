"""The transactional copy loop of our own client, with its input and its copier processes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar

from oncelog_client import KafkaError
from tests.copiers.running import Copiers, Feed, committed
from tests.copiers.work import FATAL_EXIT_CODE, Work

T = TypeVar("T")

NAME: Final = "copies"
# Kinds of copiers: the final KIP-447, and its early draft.
KINDS: Final = ("consumer", "group")
COPIERS: Final = 2
PER_SECOND: Final = 100
TRANSACTION_TIMEOUT_MS: Final = 20_000
# The session of the copiers' group. A fail-over of its coordinator takes about as long.
SESSION_MS: Final = 3_000
LOOK_S: Final = 0.2
CALL_S: Final = 60.0


class OwnCopyLoop:
    """A feed, and copiers of one of KINDS. Copiers that cannot continue are started again."""

    def __init__(self, address: str, kind: str, log: Path) -> None:
        self.work = Work(address, NAME, 0)
        self.copied = 0
        self.restarts = 0
        self.violations: list[str] = []
        self._kind = kind
        self._progress_s: list[float] = []
        self._feed = Feed(self.work, PER_SECOND, replicas=3)
        self._copiers = Copiers(address, NAME, TRANSACTION_TIMEOUT_MS, SESSION_MS, log=log)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._watching: asyncio.Task[None] | None = None

    @property
    def fed(self) -> Counter[str]:
        """Return the values of the input."""
        return Counter(value.decode() for values in self._feed.sent for value in values)

    @property
    def longest_gap_s(self) -> float:
        """Return the longest time without a committed transaction."""
        return max((later - at for at, later in pairwise(self._progress_s)), default=0.0)

    def start(self) -> None:
        self._thread.start()
        self._call(self._begin())

    def stop_feeding(self) -> None:
        """Return when the input is complete. Raises KafkaError, and TimeoutError."""
        self._call(self._feed.stop())

    @property
    def left(self) -> int:
        """Return how many records of the input are not copied."""
        return sum(map(len, self._feed.sent)) - self.copied

    def close(self) -> None:
        """End the copiers. First end the watch, which would start them again."""
        self._call(self._end())
        self._copiers.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)

    async def _begin(self) -> None:
        await self._feed.create()
        self._feed.feeding = asyncio.create_task(self._feed.run())
        for number in range(COPIERS):
            self._copiers.start(number, self._kind)
        self._watching = asyncio.create_task(self._watch())

    async def _end(self) -> None:
        tasks = [task for task in (self._watching, self._feed.feeding) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> None:
        """Count what is copied, and start ended copiers again."""
        while True:
            for number, (kind, process) in list(self._copiers.running.items()):
                code = process.poll()
                if code is not None:
                    self.restarts += 1
                    if code != FATAL_EXIT_CODE:
                        self.violations.append(f"copier {number} ended with {code}")
                    self._copiers.start(number, kind)
            try:
                copied = await asyncio.wait_for(committed(self.work), CALL_S)
            except (KafkaError, TimeoutError):
                continue
            if copied > self.copied:
                self.copied = copied
                self._progress_s.append(time.monotonic())
            await asyncio.sleep(LOOK_S)
