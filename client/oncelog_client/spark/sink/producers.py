"""The producers of a Python worker, kept from one batch to the next with their connections.

Each belongs to a transactional id, and ids are used again (`ids`). Those of an older generation
never are, nor is a producer whose task has failed. Those that nobody takes any more are closed.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from contextlib import suppress
from operator import itemgetter
from typing import Final, NamedTuple

from oncelog_client.errors import KafkaError
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.spark.client_settings import ClientSetup

from .ids import ProcessIds
from .messages import Plan
from .task_producer import TaskProducer

Key = tuple[int, ClientSetup, str]

# A producer that nobody has taken for so long is closed when another one is taken: its sink may
# have been the last batch's, or had more tasks then.
IDLE_MS: Final = 5 * 60_000
# No more than so many wait for sinks other than the one that takes one now.
MOST_OF_OTHERS: Final = 64


class Taken(NamedTuple):
    """A producer that is an attempt's until it is given back or dropped."""

    key: Key
    transactional_id: str
    producer: TaskProducer


class _Idle(NamedTuple):
    producer: TaskProducer
    since_ms: float


class _Sink:
    """What a process has for one sink. The ids stay when no producer does: they are a few numbers,
    and with others in their place the broker would keep both."""

    def __init__(self) -> None:
        self.ids = ProcessIds(uuid.uuid4().hex[:12])
        self.idle: dict[str, _Idle] = {}


_sinks: Final[dict[Key, _Sink]] = {}


async def take(setup: ClientSetup, plan: Plan) -> Taken:
    """One with an id for this attempt, connected. Raises RetriableError without a broker."""
    key = (os.getpid(), setup, plan.sink_id)
    # A sink that is used once has an id for each attempt, and nothing is kept of it.
    sink = _sinks.setdefault(key, _Sink()) if plan.is_kept else _Sink()
    is_newer = plan.generation > sink.ids.generation
    sink.ids, transactional_id = sink.ids.take(plan)
    idle = sink.idle.pop(transactional_id, None)
    unused = _pop_unused(sink, monotonic_ms())
    if is_newer:
        unused += sink.idle.values()
        sink.idle = {}
    await asyncio.gather(*(_close(one.producer) for one in unused))
    if idle is not None:
        return Taken(key, transactional_id, idle.producer)
    made = setup.having(transactional_id=transactional_id)
    producer = TaskProducer(made.bootstrap_servers, **made.keywords)
    await producer.start()
    return Taken(key, transactional_id, producer)


def _pop_unused(taking: _Sink, now_ms: float) -> list[_Idle]:
    """Those that have been idle for long, and beyond their number the longest of other sinks."""
    # A fork has its parent's, which are none of its own.
    own = [sink for (pid, *_), sink in _sinks.items() if pid == os.getpid()]
    idle = [(one.since_ms, name, sink) for sink in own for name, one in sink.idle.items()]
    idle.sort(key=itemgetter(0))
    excess = sum(sink is not taking for *_, sink in idle) - MOST_OF_OTHERS
    found = []
    for since_ms, name, sink in idle:
        is_excess = sink is not taking and excess > 0
        excess -= is_excess
        if is_excess or now_ms - since_ms > IDLE_MS:
            found.append(sink.idle.pop(name))
    return found


async def give_back(taken: Taken, plan: Plan) -> None:
    """Its transaction was handed over. A sink that is used once needs it no more."""
    if plan.is_kept:
        idle = _Idle(taken.producer, monotonic_ms())
        _sinks[taken.key].idle[taken.transactional_id] = idle
    else:
        await _close(taken.producer)


async def drop(taken: Taken) -> None:
    """It has failed: what it has in hand is given up."""
    await _close(taken.producer)


async def _close(producer: TaskProducer) -> None:
    with suppress(KafkaError):
        await producer.close(0)
