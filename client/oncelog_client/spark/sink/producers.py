"""The producers of a Python worker, kept from one batch to the next with their connections.

Each belongs to a transactional id, and ids are used again (`ids`). Those of an older generation
never are, nor is a producer whose task has failed.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from contextlib import suppress
from typing import Final, NamedTuple

from oncelog_client.errors import KafkaError
from oncelog_client.spark.client_settings import ClientSetup

from .ids import ProcessIds
from .messages import Plan
from .task_producer import TaskProducer

Key = tuple[int, ClientSetup, str]


class Taken(NamedTuple):
    """A producer that is an attempt's until it is given back or dropped."""

    key: Key
    transactional_id: str
    producer: TaskProducer


class _Sink:
    """What a process has for one sink."""

    def __init__(self) -> None:
        self.ids = ProcessIds(uuid.uuid4().hex[:12])
        self.idle: dict[str, TaskProducer] = {}


_sinks: Final[dict[Key, _Sink]] = {}


async def take(setup: ClientSetup, plan: Plan) -> Taken:
    """One with an id for this attempt, connected. Raises RetriableError without a broker."""
    key = (os.getpid(), setup, plan.sink_id)
    sink = _sinks.setdefault(key, _Sink())
    if plan.generation > sink.ids.generation:
        old, sink.idle = sink.idle, {}
        await asyncio.gather(*(_close(one) for one in old.values()))
    sink.ids, transactional_id = sink.ids.take(plan)
    producer = sink.idle.pop(transactional_id, None)
    if producer is None:
        made = setup.having(transactional_id=transactional_id)
        producer = TaskProducer(made.bootstrap_servers, **made.keywords)
        await producer.start()
    return Taken(key, transactional_id, producer)


async def give_back(taken: Taken, plan: Plan) -> None:
    """Its transaction was handed over. A sink that is used once needs it no more."""
    if plan.is_kept:
        _sinks[taken.key].idle[taken.transactional_id] = taken.producer
    else:
        _sinks.pop(taken.key, None)
        await _close(taken.producer)


async def drop(taken: Taken, plan: Plan) -> None:
    """It has failed: what it has in hand is given up."""
    if not plan.is_kept:
        _sinks.pop(taken.key, None)
    await _close(taken.producer)


async def _close(producer: TaskProducer) -> None:
    with suppress(KafkaError):
        await producer.close(0)
