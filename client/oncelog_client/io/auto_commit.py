"""Automatic commits of records that earlier polls returned. `commit_if_due` does not commit the
records of the current poll."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Final

from oncelog_client.core.consumer_config import ConsumerConfig
from oncelog_client.errors import KafkaError

from .clock import monotonic_ms
from .cluster import Cluster
from .positions import Positions

log = logging.getLogger(__name__)

# Time limit of a commit. A commit with a partition that the broker refuses is retried. Without the
# limit, a partition of a deleted topic would be retried forever. The offsets that are missing after
# the limit are in the next commit, or the next owner of the partition reads the records again.
_COMMIT_MS: Final = 2_000


class AutoCommit:
    """Commits the positions every `auto_commit_interval_ms`, if `enable_auto_commit` says so."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig, positions: Positions) -> None:
        # The time of the next commit, in ms of the monotonic clock. It is infinite until `start`.
        self.due_ms = math.inf
        self._cluster = cluster
        self._config = config
        self._positions = positions
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the first interval."""
        if self._config.enable_auto_commit:
            self.due_ms = monotonic_ms() + self._config.auto_commit_interval_ms

    def commit_if_due(self, now_ms: float) -> None:
        """Commit the current positions in the background, if the interval has ended. Call this
        method before `poll` moves the positions: the application has not yet processed the records
        of the current poll, so a crash after their commit would lose them.
        """
        if now_ms < self.due_ms:
            return
        self.due_ms = now_ms + self._config.auto_commit_interval_ms
        if self._task is None or self._task.done():
            # The task runs later, when the positions have moved. So they are read here.
            consumed = self._positions.consumed()
            self._task = self._cluster.spawn(self._positions.commit_quietly(consumed, _COMMIT_MS))

    def give_way(self) -> None:
        """Cancel a commit in flight, because the application commits itself. A stale commit must
        not follow the application's commit. The next automatic commit is due at once, because the
        application's commit may leave partitions out."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self.due_ms = monotonic_ms()

    async def finish(self) -> None:
        """Commit the positions before partitions are revoked, or for the last time. A failure is
        logged. A refused commit is retried for two seconds at most, because a deleted topic is
        refused forever."""
        if not self._config.enable_auto_commit:
            return
        self.give_way()
        try:
            await self._positions.commit(self._positions.consumed(), _COMMIT_MS)
        except KafkaError as error:
            log.warning("offsets could not be committed before partitions are revoked: %s", error)
