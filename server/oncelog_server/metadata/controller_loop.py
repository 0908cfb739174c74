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
# After so many defects in a row, each a pause after the last one, another broker becomes the
# controller if it can. This broker is a candidate again after the longer pause.
MOST_DEFECTS: Final = 5
NO_CANDIDATE_S: Final = 30.0
# Number of preferred leaders that are elected together, and the pause after them. A broker then
# loads only a few coordinators at the same time.
PREFERRED_AT_ONCE: Final = 100
PREFERRED_PAUSE_S: Final = 0.25
_NEVER: Final = float("inf")

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
        # Number of defects in a row.
        self._defects = 0
        # True from a failure of the store, which is logged once, to the next success.
        self._is_failing = False
        # The loop's time from which this broker may become the controller.
        self._candidate_at_s = 0.0
        # The loop's time of the next preferred elections.
        self._balance_at_s = _NEVER

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
        except Exception:
            if self._membership.is_alone:
                raise
            self._log_defect()
            self._wakes.set()
        self._task = asyncio.create_task(self._run(), name="controller")

    async def _settle(self) -> None:
        """Elect the controller if there is none. If this broker is the controller, make all pending
        decisions. Raises OSError and Refused if the store fails."""
        if asyncio.get_running_loop().time() >= self._candidate_at_s:
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

    async def balance(self) -> bool:
        """Elect the preferred leaders of some partitions that can have them. Return True if there
        may be more. Raises Refused if the store fails (auto.leader.rebalance.enable)."""
        if not self._election.is_won:
            return False
        if not elect_preferred_leaders(self._follower.image, at_most=1):
            return False
        await self._write(
            lambda image: self._if_won(elect_preferred_leaders(image, at_most=PREFERRED_AT_ONCE))
        )
        return True

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
        if self._settings.auto_leader_rebalance_enable and not self._membership.is_alone:
            self._balance_in(self._settings.leader_imbalance_check_interval_seconds)
        while True:
            await self._wait()
            try:
                await self._step()
                self._is_failing, self._defects = False, 0
                continue
            except (OSError, Refused) as error:
                if not self._is_failing:
                    _log.warning("the controller's decisions wait", reason=str(error))
                self._is_failing = True
            except Exception:  # a defect must not end the decisions
                self._log_defect()
            await asyncio.sleep(RETRY_S)
            self._wakes.set()

    async def _wait(self) -> None:
        """Wait until a decision is pending, or the time of the next step has come."""
        now_s = asyncio.get_running_loop().time()
        candidate_at_s = self._candidate_at_s if self._candidate_at_s > now_s else _NEVER
        until_s = min(self._balance_at_s, candidate_at_s)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(None if until_s == _NEVER else until_s):
                await self._wakes.wait()
        self._wakes.clear()

    async def _step(self) -> None:
        """Make all pending decisions, and then a bounded number of preferred elections if these are
        due. Raises OSError and Refused if the store fails."""
        if self._defects >= MOST_DEFECTS and not self._membership.is_alone:
            await self._resign()
        await self._settle()
        if asyncio.get_running_loop().time() >= self._balance_at_s:
            has_more = await self.balance()
            interval_s = self._settings.leader_imbalance_check_interval_seconds
            self._balance_in(PREFERRED_PAUSE_S if has_more else interval_s)

    def _balance_in(self, pause_s: float) -> None:
        self._balance_at_s = asyncio.get_running_loop().time() + pause_s

    async def _resign(self) -> None:
        """Let another broker decide, because this broker cannot. Raises OSError and Refused."""
        self._candidate_at_s = asyncio.get_running_loop().time() + NO_CANDIDATE_S
        if self._election.is_won:
            _log.warning("another broker must become the controller", pause_s=NO_CANDIDATE_S)
            await self._election.resign()
        self._defects = 0

    def _log_defect(self) -> None:
        self._defects += 1
        if self._defects == 1:  # each further one has the same reason, as a rule
            _log.exception("the controller's decisions failed")

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
