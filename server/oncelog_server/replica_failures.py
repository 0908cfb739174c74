"""Keeps the metadata's list of the replicas that this broker cannot serve, so that other brokers
lead their partitions (S16, D1, KIP-112). A single broker keeps no list."""

from __future__ import annotations

from typing import Final

import structlog

from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.failed_replicas import Unserved, failed_replica_writes
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.store import Write
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.conditional_writer import ConditionalWriter
from oncelog_server.partition.registry import Partitions
from oncelog_server.refusal import Refused
from oncelog_server.request_tasks import RequestTasks
from oncelog_server.settings.model import Settings
from oncelog_server.timers import Timer, Timers

# Pause before another attempt, after the store has failed.
RETRY_MS: Final = 500

log = structlog.get_logger("oncelog.cluster")


class ReplicaFailures:
    """Writes the list when a partition goes offline or comes back, when a log starts or stops
    refusing appends, and after each registration, because a list ends with its registration. The
    broker must be registered."""

    def __init__(
        self,
        settings: Settings,
        metadata: ClusterMetadata,
        partitions: Partitions,
        tasks: RequestTasks,
        timers: Timers,
    ) -> None:
        self._settings = settings
        self._metadata = metadata
        self._partitions = partitions
        self._tasks = tasks
        self._timers = timers
        self._writer = ConditionalWriter(metadata.store, metadata.follower)
        self._is_writing = False
        # True if something has changed since the last decision.
        self._is_due = False
        # True from a failure of the store, which is logged once, to the next success.
        self._is_refused = False
        self._retry: Timer | None = None
        self._is_stopped = False
        partitions.on_storage_change = self._changed
        metadata.subscribe(self._follow)
        self._changed()

    def stop(self) -> None:
        self._is_stopped = True
        if self._retry is not None:
            self._retry.cancel()

    def _follow(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        epoch_of = self._metadata.membership.epoch_in
        if delta.topics_deleted or epoch_of(old) != epoch_of(new):
            self._changed()

    def _changed(self) -> None:
        self._is_due = True
        self._begin()

    def _begin(self) -> None:
        if not self._is_writing and not self._is_stopped:
            self._is_writing = True
            # Wait until the next turn of the loop: a failed disk takes many partitions offline in
            # one turn.
            self._timers.call_soon(self._spawn)

    def _spawn(self) -> None:
        if not self._is_stopped:
            self._tasks.spawn(self._write())

    async def _write(self) -> None:
        self._retry = None
        try:
            while self._is_due:
                self._is_due = False
                await self._writer.write(self._decide)
            self._is_refused = False
        except Refused as refused:
            if not self._is_refused:
                log.warning(
                    "other brokers cannot be asked yet to lead partitions", reason=str(refused)
                )
            self._is_refused = self._is_due = True
            self._retry = self._timers.call_later(RETRY_MS, self._begin)
        finally:
            self._is_writing = False

    def _decide(self, image: ClusterImage) -> list[Write]:
        membership = self._metadata.membership
        epoch = membership.epoch_in(image)
        if not epoch:
            return []  # after the next registration, `_follow` calls `_changed`
        unserved = Unserved(self._partitions.offline(), self._partitions.refusing())
        rules = ElectionRules.of(self._settings)
        broker_id = self._settings.node_id
        return failed_replica_writes(image, rules, broker_id, epoch, membership.lease_id, unserved)
