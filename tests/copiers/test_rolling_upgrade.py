"""Two rolling bounces upgrade a running application from the producers of Kafka 0.11 to those of
the early draft of KIP-447 ("Compatibility"). The application is a group of copiers: each process
copies records from input to output partitions in transactions. Before the bounces, the application
has a producer for each input partition, fenced only by its transactional id. After the bounces, it
has a producer for each process, fenced by the group's generations. All processes are real, and the
old ones use aiokafka. During each bounce the group has members of two kinds."""

from __future__ import annotations

import signal

from tests.copiers.running import Copiers, Feed, audit, members, progress

PROCESSES = 3


async def bounce(feed: Feed, copiers: Copiers, kind: str) -> None:
    """Replace one process after another, one of them by SIGKILL. After each replacement, wait until
    the group has copied more records."""
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
    # The "task" kind waits for pending offsets and sends the generation.
    await bounce(feed, copiers, "task")
    # The "group" kind has one producer for the process, in the group.
    await bounce(feed, copiers, "group")
    await progress(feed.work, copiers, 300)
    await audit(feed, copiers)


async def test_an_old_copier_that_resumes_after_the_upgrade_copies_no_record_twice(
    feed: Feed, copiers: Copiers
) -> None:
    """During the second bounce the old process is suspended, and not replaced."""
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
