"""The things that all parts of a broker share: settings, clock, timers, disk, partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oncelog_server.config import Settings
from oncelog_server.environment import Environment
from oncelog_server.observe.audit_log import logged_owners
from oncelog_server.observe.fences import log_refused_id
from oncelog_server.partition.group_flush import GroupFlush
from oncelog_server.partition.registry import Partitions
from oncelog_server.refused_work import RefusedWork
from oncelog_server.request_tasks import RequestTasks
from oncelog_server.slices import Slices
from oncelog_server.transaction.producer_id_quota import RefusedProducerIds


class Foundation:
    """`is_known` returns whether the metadata image has a partition."""

    def __init__(
        self,
        settings: Settings,
        environment: Environment,
        is_known: Callable[[str, int], bool],
    ) -> None:
        self.settings = settings
        self.environment = environment
        self.clock = clock = environment.clock
        self.timers = environment.timers(asyncio.get_running_loop())
        self.directory = environment.directory
        self.files = environment.files
        self.slices = Slices(
            self.timers, clock.monotonic_ms, steps_per_slice=environment.steps_per_slice
        )
        self.refused_work = RefusedWork(self.timers, clock.monotonic_ms)
        self.partitions = Partitions(is_known)
        self.group_flush = GroupFlush(self.files, clock.monotonic_ns)
        self.tasks = RequestTasks()
        self.producer_id_owners = logged_owners(clock.monotonic_ms)
        self.refused_ids = RefusedProducerIds(clock.monotonic_ms, log_refused_id)
