"""A worker reuses its producers, and closes those that it no longer needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from oncelog_client.errors import ClosedError
from oncelog_client.spark.settings.client_settings import ClientSetup
from oncelog_client.spark.sink import producers
from oncelog_client.spark.sink.producers import Taken, drop, give_back, take
from oncelog_client.spark.sink.protocol.messages import CommitKind, Plan
from oncelog_client.values import TransactionMember
from tests.harness.broker import Oncelog


def plan_of(sink_id: str, done: int = 0) -> Plan:
    return Plan(sink_id, CommitKind.GROUP, 1, TransactionMember(sink_id, 1, 0), "q", done)


class Worker:
    """A worker that takes producers as tasks do, and remembers all of them."""

    def __init__(self, setup: ClientSetup) -> None:
        self._setup = setup
        self.taken: list[Taken] = []

    async def take(self, plan: Plan) -> Taken:
        self.taken.append(await take(self._setup, plan))
        return self.taken[-1]

    async def use(self, plan: Plan) -> Taken:
        taken = await self.take(plan)
        await give_back(taken, plan)
        return taken


async def is_closed(taken: Taken) -> bool:
    try:
        await taken.producer.flush()
    except ClosedError:
        return True
    return False


@pytest.fixture
async def worker(broker: Oncelog, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Worker]:
    monkeypatch.setattr(producers, "_sinks", {})
    found = Worker(ClientSetup(broker.address))
    yield found
    for producer in found.taken:
        await producer.producer.close()


async def test_the_next_batch_reuses_the_producer_of_the_last_batch(
    worker: Worker, name: str
) -> None:
    first = await worker.use(plan_of(name))
    await worker.use(plan_of(f"{name}-other"))
    assert await worker.use(plan_of(name, done=1)) == first
    assert not await is_closed(first)


async def test_a_producer_that_is_idle_for_long_is_closed_and_its_id_is_reused(
    worker: Worker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = [await worker.use(plan_of(name)), await worker.use(plan_of(f"{name}-other"))]
    held = await worker.take(plan_of(f"{name}-held"))
    monkeypatch.setattr(producers, "IDLE_MS", -1)
    again = await worker.take(plan_of(name, done=1))
    # A task reuses the producer of its own sink, however long this producer was idle.
    assert (again, [await is_closed(socket) for socket in idle]) == (idle[0], [False, True])
    assert not await is_closed(held)
    other = await worker.take(plan_of(f"{name}-other", done=1))
    assert other.transactional_id == idle[1].transactional_id
    assert not await is_closed(other)


async def test_a_worker_keeps_a_limited_number_of_idle_producers_of_other_sinks(
    worker: Worker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "MOST_OF_OTHERS", 2)
    sinks = [await worker.use(plan_of(f"{name}-{number}")) for number in range(5)]
    # When the fifth sink took its producer, the worker kept two idle producers of other sinks.
    assert [await is_closed(sink) for sink in sinks] == [True, True, False, False, False]
    again = await worker.take(plan_of(f"{name}-4", done=1))
    assert again == sinks[4]


async def test_all_idle_producers_of_one_sink_are_kept(
    worker: Worker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "MOST_OF_OTHERS", 1)
    tasks = [await worker.use(plan_of(name)) for _ in range(4)]
    assert [await worker.use(plan_of(name, done=1)) for _ in range(4)] == tasks


@pytest.mark.parametrize("fails", [False, True])
async def test_nothing_is_kept_of_a_sink_that_is_used_once(
    worker: Worker, name: str, fails: bool
) -> None:
    once = replace(plan_of(name), parent=None)
    taken = await worker.take(once)
    await (drop(taken) if fails else give_back(taken, once))
    assert await is_closed(taken)
    assert producers._sinks == {}
