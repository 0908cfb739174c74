"""A close that is cancelled, at any place where it waits, leaves no task and no connection of the
client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final

import pytest

from oncelog_client import Admin, Consumer, Producer, TopicPartition
from oncelog_client.errors import ClosedError
from oncelog_protocol.apis import ApiKey
from tests.client.scripted_broker import ADDRESS, DROP, TOPIC, ScriptedBroker, simulated

SERVERS: Final = "{}:{}".format(*ADDRESS)
# More places than any close here has.
MOST_PLACES: Final = 500

Client = Producer[bytes, bytes] | Consumer[bytes, bytes] | Admin
Prepare = Callable[[ScriptedBroker], Awaitable[Client]]


class _Cancelling:
    """Awaits `work`, and cancels its own task at `count` places, from number `first` on."""

    def __init__(self, work: Coroutine[Any, Any, None], first: int, count: int) -> None:
        self._work = work
        self._cancels = range(first, first + count)
        self.places = 0

    def __await__(self) -> Generator[Any, Any, None]:
        task = asyncio.current_task()
        assert task is not None
        thrown: BaseException | None = None
        while True:
            try:
                send, throw = self._work.send, self._work.throw
                waits_for = send(None) if thrown is None else throw(thrown)
            except StopIteration:
                return
            if self.places in self._cancels:
                asyncio.get_running_loop().call_soon(task.cancel)
            self.places += 1
            thrown = None
            try:
                yield waits_for
            except BaseException as error:
                thrown = error


def _silent(*apis: ApiKey) -> Callable[[ApiKey, Any], Any]:
    """Return a script that does not respond to these APIs."""
    return lambda api, request: DROP if api in apis else None


async def _producer(broker: ScriptedBroker) -> Client:
    producer = Producer[bytes, bytes](SERVERS, linger_ms=0)
    await producer.start()
    await producer.send_and_wait(TOPIC, b"0", partition=0)
    broker.script = _silent(ApiKey.PRODUCE)
    producer_sent = await producer.send(TOPIC, b"1", partition=0)
    producer_sent.add_done_callback(lambda sent: sent.exception())
    return producer


async def _transactional(broker: ScriptedBroker) -> Client:
    producer = Producer[bytes, bytes](SERVERS, transactional_id="id", linger_ms=0)
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send_and_wait(TOPIC, b"0", partition=0)
    return producer


async def _transactional_without_response(broker: ScriptedBroker) -> Client:
    producer = await _transactional(broker)
    broker.script = _silent(ApiKey.END_TXN)
    return producer


async def _member(broker: ScriptedBroker) -> Client:
    consumer = Consumer[bytes, bytes](SERVERS, group_id="group")
    await consumer.start()
    await consumer.subscribe(TOPIC)
    await consumer.poll(3_000)
    assert consumer.assignment()
    return consumer


async def _joining(broker: ScriptedBroker) -> Client:
    broker.script = _silent(ApiKey.JOIN_GROUP)
    consumer = Consumer[bytes, bytes](SERVERS, group_id="group")
    await consumer.start()
    await consumer.subscribe(TOPIC)
    await consumer.poll(100)
    assert broker.counts[ApiKey.JOIN_GROUP]
    return consumer


async def _reader(broker: ScriptedBroker) -> Client:
    consumer = Consumer[bytes, bytes](SERVERS)
    await consumer.start()
    await consumer.assign([TopicPartition(TOPIC, 0)])
    await consumer.poll(100)
    return consumer


async def _admin(broker: ScriptedBroker) -> Client:
    admin = Admin(SERVERS)
    await admin.start()
    await admin.list_topics()
    return admin


async def _cancelled_at(prepare: Prepare, broker: ScriptedBroker, first: int, count: int) -> bool:
    """Cancel a close at `count` places from `first` on. Return False if the close has fewer
    places."""
    before = asyncio.all_tasks()
    client = await prepare(broker)
    closing = _Cancelling(client.close(), first, count)

    async def close() -> None:
        await closing

    task = asyncio.ensure_future(close())
    await asyncio.wait({task})
    assert asyncio.all_tasks() <= before, f"tasks are left after a cancel at place {first}"
    assert not broker.connections, f"a connection is open after a cancel at place {first}"
    if closing.places <= first:
        assert task.exception() is None
        return False
    assert task.cancelled(), f"the cancel at place {first} is lost"
    await client.close()
    if isinstance(client, Producer):
        with pytest.raises(ClosedError):
            await client.send(TOPIC, b"2", partition=0)
    return True


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(
    "prepare",
    [
        *(_producer, _transactional, _transactional_without_response),
        *(_member, _joining, _reader, _admin),
    ],
)
def test_a_cancelled_close_releases_everything(prepare: Prepare, count: int) -> None:
    for first in range(MOST_PLACES):
        broker = ScriptedBroker()
        scenario = partial(_cancelled_at, prepare, broker, first, count)
        if not simulated(broker, scenario):
            assert first, "the close waits at no place"
            return
    raise AssertionError(f"a close waits at more than {MOST_PLACES} places")
