"""The producers of a Python worker, kept from one batch to the next with their connections.

Each producer belongs to a transactional id, and later batches reuse the ids (`ids`) with their
producers. The producers of older generations and of failed tasks are never reused. Producers that
are idle for long are closed.
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
from oncelog_client.spark.host_files import naming_host
from oncelog_client.spark.settings.client_settings import ClientSetup
from oncelog_client.spark.sink.protocol.ids import ProcessIds
from oncelog_client.spark.sink.protocol.messages import Plan

from .task_producer import TaskProducer

Key = tuple[int, ClientSetup, str]

# Idle time after which the next `take` closes a producer. A producer stays idle if its sink has
# ended, or has fewer tasks now.
IDLE_MS: Final = 5 * 60_000
# Maximum number of idle producers. Producers of the sink that takes a producer are not counted.
MOST_OF_OTHERS: Final = 64


class Taken(NamedTuple):
    """A producer in use by an attempt, until it is given back or dropped."""

    key: Key
    transactional_id: str
    producer: TaskProducer


class _Idle(NamedTuple):
    producer: TaskProducer
    since_ms: float


class _Sink:
    """The ids and idle producers of one sink in this process. The ids outlive the producers: the
    broker stores each id for days, so new ids would add to the old ones."""

    def __init__(self) -> None:
        self.ids = ProcessIds(uuid.uuid4().hex[:12])
        self.idle: dict[str, _Idle] = {}


_sinks: Final[dict[Key, _Sink]] = {}


async def take(setup: ClientSetup, plan: Plan) -> Taken:
    """Return a connected producer with an id for this attempt. Raises RetriableError if no broker
    can be reached."""
    key = (os.getpid(), setup, plan.sink_id)
    # If `plan.is_kept` is False, the sink is used once. Each attempt then has a new id, and its
    # producer is not kept.
    sink = _sinks.setdefault(key, _Sink()) if plan.is_kept else _Sink()
    is_newer = plan.generation > sink.ids.generation
    sink.ids, transactional_id = sink.ids.take(plan)
    idle = sink.idle.pop(transactional_id, None)
    unused = _pop_unused(sink, monotonic_ms())
    if is_newer:
        unused += sink.idle.values()
        sink.idle = {}
    await asyncio.gather(*(_close(entry.producer) for entry in unused))
    if idle is not None:
        return Taken(key, transactional_id, idle.producer)
    made = setup.having(transactional_id=transactional_id)
    producer = TaskProducer(made.bootstrap_servers, **made.keywords)
    with naming_host():
        await producer.start()
    return Taken(key, transactional_id, producer)


def _pop_unused(taking: _Sink, now_ms: float) -> list[_Idle]:
    """Remove and return the producers that are idle for too long. If more than MOST_OF_OTHERS
    producers of other sinks are idle, remove and return the oldest too."""
    # A forked process has copies of its parent's producers, and must not use them.
    own = [sink for (pid, *_), sink in _sinks.items() if pid == os.getpid()]
    idle = [(entry.since_ms, name, sink) for sink in own for name, entry in sink.idle.items()]
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
    """Keep a producer that has handed its transaction over to the driver. If the sink is used once,
    close the producer instead."""
    if plan.is_kept:
        idle = _Idle(taken.producer, monotonic_ms())
        _sinks[taken.key].idle[taken.transactional_id] = idle
    else:
        await _close(taken.producer)


async def drop(taken: Taken) -> None:
    """Close a failed producer without waiting for its requests in flight."""
    await _close(taken.producer)


async def _close(producer: TaskProducer) -> None:
    with suppress(KafkaError):
        await producer.close(0)
