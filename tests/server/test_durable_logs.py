"""A stop with many partitions runs in slices. Signals and other work run between the slices."""

from __future__ import annotations

import asyncio

from oncelog_server.durable_logs import close_logs
from oncelog_server.loop_timers import LoopTimers
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.registry import Partitions
from oncelog_server.slices import Slices
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import DIRECTORY, TOPIC_ID, Driver

COUNT = 50
STEPS_PER_SLICE = 5


def written() -> tuple[list[Driver], Partitions]:
    """Return partitions with a record each. Every partition has its own disk."""
    drivers, partitions = [], Partitions()
    for number in range(COUNT):
        driver = Driver()
        driver.send(7, 0)
        name = TopicPartition(DIRECTORY.removesuffix("-0"), number)
        partition = Partition(name, TOPIC_ID, driver.log, lambda partition: None)
        partition.become_leader(1, 0, (1,), (1,))
        partitions.add(partition)
        drivers.append(driver)
    return drivers, partitions


def slices() -> Slices:
    loop = asyncio.get_running_loop()
    return Slices(LoopTimers(loop), lambda: 0, steps_per_slice=STEPS_PER_SLICE)


async def test_logs_are_closed_in_slices_and_all_of_them_are_durable() -> None:
    drivers, partitions = written()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            for driver in drivers:
                driver.files.settle()
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    files = drivers[0].files
    assert await close_logs(files, partitions, slices())
    beside.cancel()
    assert turns >= 2 * COUNT // STEPS_PER_SLICE
    assert all(driver.log.recovery_point == 1 for driver in drivers)


async def test_s16_a_stop_is_not_clean_if_the_sync_of_a_roll_fails_meanwhile() -> None:
    """The sync of the stop covers the same files and succeeds, because the kernel has reported the
    error to the sync of the roll."""
    drivers, partitions = written()
    rolled = drivers[7]
    rolled.log.roll(rolled.now_ms)
    (roll,) = rolled.files.pending
    rolled.files.pending.clear()
    files = drivers[0].files
    stopping = asyncio.create_task(close_logs(files, partitions, slices()))
    for _ in range(3 * COUNT):
        await asyncio.sleep(0)
    assert len(files.pending) == 1
    files.settle()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not stopping.done()
    rolled.files.fail_sync()
    roll()
    assert not await stopping


async def test_no_partition_is_led_once_the_first_log_is_closed() -> None:
    """The next start trusts the state of a clean stop, so it would lose an append after the
    close."""
    drivers, partitions = written()
    seen: list[tuple[int, int]] = []
    stopping = asyncio.create_task(close_logs(drivers[0].files, partitions, slices()))
    while not stopping.done():
        closed = sum(bool(driver.log.snapshots.offsets) for driver in drivers)
        led = sum(partition.is_leader for partition in partitions)
        seen.append((closed, led))
        drivers[0].files.settle()
        await asyncio.sleep(0)
    assert any(0 < led < COUNT for _, led in seen), "partitions resign in slices"
    assert any(0 < closed < COUNT for closed, _ in seen), "logs are closed in slices"
    assert not [led for closed, led in seen if closed and led]
