"""A copy loop in a group under constant rebalances, with real processes. Every record is copied
once (scenarios G1 and G3)."""

from __future__ import annotations

import signal

import pytest

from tests.copiers.running import Copiers, Feed, asleep, audit, members, progress


@pytest.mark.parametrize("kind", ["consumer", "group"])
async def test_g1_three_restarted_copiers_of_nine_partitions_copy_every_record_once(
    kind: str, feed: Feed, copiers: Copiers
) -> None:
    for number in range(3):
        copiers.start(number, kind)
    await progress(feed.work, copiers, 300)
    for number, how in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)):
        copiers.stop(number, how)
        await progress(feed.work, copiers, 150)
        copiers.start(number + 3, kind)
        await progress(feed.work, copiers, 150)
    await audit(feed, copiers)


@pytest.mark.parametrize("kind", ["task", "consumer", "group"])
async def test_g3_a_copier_paused_beyond_its_session_timeout_writes_no_duplicates(
    kind: str, feed: Feed, copiers: Copiers
) -> None:
    """The copier's transaction has not timed out when it resumes, so only the group fences the
    copier."""
    copiers.timeout_ms = 30_000
    for number in range(2):
        copiers.start(number, kind)
    await members(feed.work, copiers, 2)
    await progress(feed.work, copiers, 300)
    for _ in range(2):
        await asleep(copiers, 0)
        await members(feed.work, copiers, 1)
        await progress(feed.work, copiers, 300)
        copiers.send(0, signal.SIGCONT)
        await members(feed.work, copiers, 2)
        await progress(feed.work, copiers, 150)
    await audit(feed, copiers)
