"""An application of 0.11 becomes one of the early draft by two rolling bounces, while it works: a
producer for each input partition and no fence but its transactional id at first, one for each
process and the group's generations at the end (KIP-447, "Compatibility"). Real processes, aiokafka
for the old ones; at every moment between, members of two kinds share the group."""

from __future__ import annotations

import signal

from tests.copiers.running import Copiers, Feed, audit, members, progress

PROCESSES = 3


async def bounce(feed: Feed, copiers: Copiers, kind: str) -> None:
    """Replace one process after another, one of them by force, and let the mixture work between."""
    for number, how in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)):
        copiers.replace(number, kind, how)
        await progress(feed.work, copiers, 150)


async def test_two_rolling_bounces_from_011_to_the_draft_copy_every_record_once(
    feed: Feed, copiers: Copiers
) -> None:
    for number in range(PROCESSES):
        copiers.start(number, "old")
    await members(feed.work, copiers, PROCESSES)
    await progress(feed.work, copiers, 300)
    # Pending offsets are waited for, and the generation is sent along.
    await bounce(feed, copiers, "task")
    # One producer for the process, in the group.
    await bounce(feed, copiers, "group")
    await progress(feed.work, copiers, 300)
    await audit(feed, copiers)


async def test_an_old_copier_that_wakes_up_among_new_ones_doubles_nothing(
    feed: Feed, copiers: Copiers
) -> None:
    """The last process of the second bounce hung during the whole of it."""
    for number in range(PROCESSES):
        copiers.start(number, "task")
    await members(feed.work, copiers, PROCESSES)
    await progress(feed.work, copiers, 300)
    copiers.send(0, signal.SIGSTOP)
    for number in (1, 2):
        copiers.replace(number, "group")
    await members(feed.work, copiers, 2)
    await progress(feed.work, copiers, 300)
    copiers.send(0, signal.SIGCONT)
    await progress(feed.work, copiers, 300)
    await audit(feed, copiers)
