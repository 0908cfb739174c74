"""Runs copiers (processes that copy records from an input topic to an output topic), writes their
input at a steady rate, and audits their output."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from oncelog_client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.copiers.work import FATAL_EXIT_CODE, PARTITIONS, SESSION_MS, SLEEP, Work
from tests.harness.driving import state

DEADLINE_S = 60.0


@dataclass
class Copiers:
    """The copiers by number. A copier with a producer that cannot continue is started again.
    `login` is `Work.login`. `log`: a file for what they write to standard error."""

    address: str
    name: str
    timeout_ms: int = 3_000
    session_ms: int = SESSION_MS
    login: str = ""
    log: Path | None = None
    running: dict[int, tuple[str, subprocess.Popen[bytes]]] = field(default_factory=dict)
    restarts: int = 0

    def start(self, number: int, kind: str) -> None:
        command = [sys.executable, "-m", "tests.copiers.copier", kind, self.address, self.name]
        command += map(str, (number, self.timeout_ms, self.session_ms, self.login))
        # The signal is blocked until the process can handle it. An unhandled signal would kill the
        # process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {SLEEP})
        try:
            process = self._process(command)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.running[number] = (kind, process)

    def _process(self, command: list[str]) -> subprocess.Popen[bytes]:
        if self.log is None:
            return subprocess.Popen(command)
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stderr=log)

    def send(self, number: int, what: signal.Signals) -> None:
        self.running[number][1].send_signal(what)

    def stop(self, number: int, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop a process. Return its exit code."""
        _, process = self.running.pop(number)
        process.send_signal(how)
        try:
            return process.wait(DEADLINE_S)
        finally:
            process.kill()

    def replace(self, number: int, kind: str, how: signal.Signals = signal.SIGTERM) -> None:
        """Replace a process, as in a rolling bounce. The old process ends, and a process of another
        kind starts."""
        self.stop(number, how)
        self.start(number, kind)

    def revive(self) -> None:
        """Restart copiers that have ended because their producer could not continue."""
        for number, (kind, process) in list(self.running.items()):
            code = process.poll()
            if code is not None:
                assert code == FATAL_EXIT_CODE, f"copier {number} ended with {code}"
                self.restarts += 1
                self.start(number, kind)

    def close(self) -> None:
        for _, process in self.running.values():
            process.kill()
            process.wait()


@dataclass
class Feed:
    """Writes numbered records to all partitions, until `stop` is called."""

    work: Work
    per_second: int = 400
    replicas: int = 1
    ended: bool = False
    sent: list[list[bytes]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    feeding: asyncio.Task[None] | None = None

    async def create(self) -> None:
        async with Admin(self.work.address, **self.work.security) as admin:
            await admin.create_topics(
                [
                    NewTopic(topic, PARTITIONS, self.replicas)
                    for topic in (self.work.input, self.work.output)
                ]
            )

    async def stop(self) -> None:
        """Stop. `sent` then has all records."""
        self.ended = True
        if self.feeding is not None:
            await self.feeding

    async def run(self) -> None:
        number = 0
        async with Producer(self.work.address, linger_ms=5, **self.work.security) as producer:
            while not self.ended:
                for _ in range(self.per_second // 20):
                    partition = number % PARTITIONS
                    value = b"%d" % number
                    await producer.send(self.work.input, value, partition=partition)
                    self.sent[partition].append(value)
                    number += 1
                await producer.flush()
                await asyncio.sleep(0.05)  # a turn sends the records of a twentieth of a second


async def committed(work: Work) -> int:
    """Return the number of input records that the group has committed."""
    partitions = [TopicPartition(work.input, number) for number in range(PARTITIONS)]
    async with Admin(work.address, **work.security) as admin:
        offsets = await admin.list_group_offsets(work.name, partitions)
    return sum(offset.offset for offset in offsets.values())


async def until(condition: Callable[[], Awaitable[bool]], copiers: Copiers) -> None:
    """Wait for a condition, and restart ended copiers meanwhile."""
    deadline = time.monotonic() + DEADLINE_S
    while not await condition():
        assert time.monotonic() < deadline, "the copiers never finish"
        copiers.revive()
        await asyncio.sleep(0.1)


async def progress(work: Work, copiers: Copiers, records: int) -> None:
    """Wait until this number of further records is copied."""
    goal = await committed(work) + records

    async def reached() -> bool:
        return await committed(work) >= goal

    await until(reached, copiers)


async def members(work: Work, copiers: Copiers, count: int) -> None:
    """Wait until the group has this number of members, with partitions assigned."""
    async with Admin(work.address, **work.security) as admin:

        async def reached() -> bool:
            group = (await admin.describe_groups([work.name]))[work.name]
            return len(group.members) == count and group.state == "Stable"

        await until(reached, copiers)


async def asleep(copiers: Copiers, number: int) -> None:
    """Suspend a copier in a transaction. Return when it is suspended. If the copier ends before
    that, restart it and try again."""
    stopped: subprocess.Popen[bytes] | None = None

    async def reached() -> bool:
        nonlocal stopped
        _, process = copiers.running[number]
        if process is not stopped:
            copiers.send(number, SLEEP)
            stopped = process
        return process.poll() is None and state(process.pid) == "T"

    await until(reached, copiers)


async def audit(feed: Feed, copiers: Copiers) -> None:
    """I13: after everything is copied, a read_committed reader finds each record once, in order."""
    work = feed.work
    await feed.stop()
    total = sum(len(values) for values in feed.sent)

    async def finished() -> bool:
        return await committed(work) == total

    await until(finished, copiers)
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    async with Consumer(work.address, isolation_level="read_committed", **work.security) as reader:
        places = [TopicPartition(work.output, number) for number in range(PARTITIONS)]
        await reader.assign(places)
        await reader.seek_to_beginning()
        deadline = time.monotonic() + DEADLINE_S
        while await _behind(work, reader, places):
            assert time.monotonic() < deadline, "a transaction stays open"
            for record in await reader.poll(100, max_records=5_000):
                found[record.partition].append(record.value or b"")
    for number, (sent, got) in enumerate(zip(feed.sent, found, strict=True)):
        doubled = [value for value, count in Counter(got).items() if count > 1]
        lost = sorted(set(sent) - set(got), key=sent.index)
        assert not doubled, f"partition {number}, doubled: {doubled[:5]}"
        assert not lost, f"partition {number}, lost: {lost[:5]} of {len(sent)}"
        assert got == sent


async def _behind(work: Work, reader: Consumer, places: list[TopicPartition]) -> bool:
    """Return True if the reader has more records to read, now or after open transactions end."""
    async with Admin(work.address, **work.security) as admin:
        ends = await admin.list_offsets(dict.fromkeys(places, "latest"))
    return any([await reader.position(place) < ends[place].offset for place in places])
