"""Runs the decisions of the controller, on the broker that is the controller, when the image
changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from oncelog_server.cluster.controller import (
    elect_leaders,
    elect_preferred_leaders,
    remove_orphans,
)
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.store import Write
from oncelog_server.metadata.conditional_writer import ConditionalWriter
from oncelog_server.metadata.controller_election import ControllerElection
from oncelog_server.metadata.image_follower import ImageFollower
from oncelog_server.metadata.membership import Membership
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings

# Number of partitions that one decision changes. A decision for so many takes 10 ms of the loop.
AT_ONCE: Final = 1_000
# Pause after a failure of the store.
RETRY_S: Final = 1.0
# The time that a start has for the first decisions, even if its deadline is nearer.
LEAST_S: Final = 10.0
# Number of preferred leaders that are elected together, and the pause after them. A broker then
# loads only a few coordinators at the same time.
PREFERRED_AT_ONCE: Final = 100
PREFERRED_PAUSE_S: Final = 0.25

_log = structlog.get_logger("oncelog.cluster")


class ControllerLoop:
    """Decides at each change of the brokers for all partitions, and at each change of a partition
    for its topic. Call `start` when this broker is registered, and `stop` at the end."""

    def __init__(
        self,
        follower: ImageFollower,
        writer: ConditionalWriter,
        election: ControllerElection,
        membership: Membership,
        settings: Settings,
    ) -> None:
        self._follower = follower
        self._writer = writer
        self._election = election
        self._membership = membership
        self._settings = settings
        # Topics with changes that are not decided on. None stands for all topics.
        self._pending: dict[str, None] | None = None
        self._has_orphans = True
        self._wakes = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def rules(self) -> ElectionRules:
        """Return the rules of elections, by the settings in force."""
        return ElectionRules.of(self._settings)

    async def start(self, ends_s: float) -> None:
        """Follow the image from now on. Return when no decision is pending, or if another broker is
        the controller. If a store with several brokers fails, or its changes do not arrive until
        `ends_s` of the loop's time, the decisions follow later. Raises OSError and Refused if the
        store of a single broker fails."""
        self._follower.subscribe(self._follow)
        least_s = asyncio.get_running_loop().time() + LEAST_S
        limit_s = None if self._membership.is_alone else max(ends_s, least_s)
        try:
            async with asyncio.timeout_at(limit_s):
                await self._settle()
        except (OSError, Refused) as error:
            if self._membership.is_alone:
                raise
            _log.warning("the controller's decisions wait", reason=str(error) or "a timeout")
            self._wakes.set()
        self._task = asyncio.create_task(self._run(), name="controller")

    async def _settle(self) -> None:
        """Elect the controller if there is none. If this broker is the controller, make all pending
        decisions. Raises OSError and Refused if the store fails."""
        await self._election.run()
        if not self._election.is_won:
            return
        pending, self._pending = self._pending, {}
        try:
            if pending is None or pending:
                await self._elect(pending)
            if self._has_orphans:
                self._has_orphans = False
                await self._write(lambda image: self._if_won(remove_orphans(image)))
        except BaseException:
            self._pending, self._has_orphans = None, True
            raise

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def balance(self) -> None:
        """Elect the preferred leaders of all partitions that can have them, some at a time. Raises
        Refused if the store fails (auto.leader.rebalance.enable)."""
        while self._election.is_won and elect_preferred_leaders(self._follower.image, at_most=1):
            await self._write(
                lambda image: self._if_won(
                    elect_preferred_leaders(image, at_most=PREFERRED_AT_ONCE)
                )
            )
            await asyncio.sleep(PREFERRED_PAUSE_S)

    # --- what is to be decided

    def _follow(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        if _has_other_members(old, new) or new.configs is not old.configs:
            self._pending, self._has_orphans = None, True
        if new.controller_id == -1:
            self._wakes.set()
        if not self._election.is_won:
            return
        if self._pending is not None and not self._membership.is_alone:
            # If the store has a single broker, this broker leads every partition already.
            self._add(change.topic.name for change in delta.partitions if change.new is not None)
            self._add(topic.name for topic in delta.settings_changed)
        if _has_failed_creation(old, new):
            self._has_orphans = True
        if self._pending is None or self._pending or self._has_orphans:
            self._wakes.set()

    def _add(self, names: Iterable[str]) -> None:
        if self._pending is not None:
            self._pending.update(dict.fromkeys(names))

    # --- work

    async def _run(self) -> None:
        interval_s = self._settings.leader_imbalance_check_interval_seconds
        balances = self._settings.auto_leader_rebalance_enable and not self._membership.is_alone
        loop = asyncio.get_running_loop()
        balance_at = loop.time() + interval_s if balances else None
        is_failing = False
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(balance_at):
                    await self._wakes.wait()
            self._wakes.clear()
            try:
                await self._settle()
                if balance_at is not None and loop.time() >= balance_at:
                    balance_at = loop.time() + interval_s
                    await self.balance()
                is_failing = False
            except (OSError, Refused) as error:
                if not is_failing:
                    _log.warning("the controller's decisions wait", reason=str(error))
                is_failing = True
                await asyncio.sleep(RETRY_S)
                self._wakes.set()

    async def _elect(self, names: dict[str, None] | None) -> None:
        """Make the decisions for these topics, None for all, in parts."""
        decided: Sequence[Write] = ()

        def decide(image: ClusterImage) -> list[Write]:
            nonlocal decided
            found = elect_leaders(image, self.rules, names, at_most=AT_ONCE)
            decided = self._if_won(found)
            return list(decided)

        while True:
            await self._write(decide)
            if sum(len(write.operations) for write in decided) < AT_ONCE:
                return

    async def _write(self, decide: Callable[[ClusterImage], list[Write]]) -> None:
        """Make the writes that `decide` returns. The image may be stale, because each later image
        leads to another decision."""
        await self._writer.write(decide, catches_up=False)

    def _if_won(self, writes: list[Write]) -> list[Write]:
        return writes if self._election.is_won else []


def _has_other_members(old: ClusterImage, new: ClusterImage) -> bool:
    """Return True if the change may concern every partition."""
    return (
        old.brokers is not new.brokers
        or old.draining is not new.draining
        or old.failed is not new.failed
        or old.controller_epoch != new.controller_epoch
    )


def _has_failed_creation(old: ClusterImage, new: ClusterImage) -> bool:
    """Return True if a creation of partitions has ended without them."""
    if old.creating is new.creating:
        return False
    for topic_id in old.creating.keys() - new.creating.keys():
        before, topic = old.topic_by_id(topic_id), new.topic_by_id(topic_id)
        if topic is None:
            return True
        if before is not None and len(before.partitions) == len(topic.partitions):
            return True
    return False
