"""A program that misuses a client gets an error at the call, and the client stays usable."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from oncelog_client import (
    AbortableError,
    Admin,
    AuthorizationError,
    ClosedError,
    Consumer,
    IllegalStateError,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from tests.client.scripted_broker import DROP, TOPIC, ScriptedBroker, simulated

DEADLINE_MS = 30_000
BYTES: Any = re.compile(b"orders.*")


async def test_a_client_starts_once(bootstrap: str, topic: str) -> None:
    clients: list[Any] = [Producer(bootstrap), Consumer(bootstrap), Admin(bootstrap)]
    for client in clients:
        await client.start()
        with pytest.raises(IllegalStateError, match="started already"):
            await client.start()
    written = await clients[0].send_and_wait(topic, b"1", partition=0)
    await clients[1].assign([written.topic_partition])
    clients[1].seek(written.topic_partition, written.offset)
    assert [record.value for record in await clients[1].poll(DEADLINE_MS)] == [b"1"]
    for client in clients:
        await client.close()
        with pytest.raises(ClosedError, match="make a new one"):
            await client.start()
    with pytest.raises(ClosedError, match="the producer is closed: make a new one"):
        await clients[0].send(topic, b"2")


async def test_a_client_belongs_to_one_event_loop(bootstrap: str, topic: str, name: str) -> None:
    """A call from another thread, or from a second `asyncio.run`, is refused. The client stays
    usable on its own loop."""
    place = TopicPartition(topic, 0)
    async with (
        Producer(bootstrap) as producer,
        Consumer(bootstrap, group_id=name, auto_offset_reset="earliest") as consumer,
        Admin(bootstrap) as admin,
    ):
        await consumer.assign([place])
        calls: tuple[Callable[[], Coroutine[Any, Any, object]], ...] = (
            lambda: producer.send(topic, b"1"),
            lambda: producer.flush(),
            lambda: producer.close(),
            lambda: consumer.poll(DEADLINE_MS),
            lambda: consumer.commit(),
            lambda: consumer.close(),
            lambda: admin.list_topics(),
            lambda: admin.close(),
        )
        for call in calls:
            with pytest.raises(IllegalStateError, match="belongs to another event loop"):
                await asyncio.to_thread(asyncio.run, call())
        await producer.send_and_wait(topic, b"1", partition=0)
        assert [record.value for record in await consumer.poll(DEADLINE_MS)] == [b"1"]
        assert topic in await admin.list_topics()


async def test_a_client_with_a_failed_start_is_closed() -> None:
    producer, consumer = Producer("127.0.0.1:1"), Consumer("127.0.0.1:1")
    for client in (producer, consumer):
        with pytest.raises(KafkaError):
            await client.start(fail_fast=True)
    with pytest.raises(ClosedError, match="the producer is closed: make a new one"):
        await producer.send("orders", b"1")
    with pytest.raises(ClosedError, match="the consumer is closed: make a new one"):
        await consumer.poll()
    await producer.close()
    await consumer.close()


async def test_a_closed_consumer_refuses_every_change(bootstrap: str) -> None:
    place = TopicPartition("orders", 0)
    async with Consumer(bootstrap) as consumer:
        await consumer.assign([place])
    changes: tuple[Callable[[], None], ...] = (
        lambda: consumer.seek(place, 0),
        lambda: consumer.pause(place),
        lambda: consumer.resume(place),
    )
    for change in changes:
        with pytest.raises(ClosedError, match="the consumer is closed"):
            change()


@pytest.mark.parametrize(
    "misuse",
    [
        lambda consumer, _: consumer.subscribe(None),
        lambda consumer, _: consumer.subscribe([None]),
        lambda consumer, _: consumer.subscribe(""),
        lambda consumer, _: consumer.subscribe("\ud800"),
        lambda consumer, _: consumer.subscribe(BYTES),
        lambda consumer, place: consumer.subscribe(place.topic, object()),
        lambda consumer, _: consumer.assign([(None, 0)]),
        lambda consumer, place: consumer.assign([(place.topic, "0")]),
        lambda consumer, place: consumer.assign(place),
        lambda consumer, place: consumer.committed([place]),
        lambda consumer, place: consumer.commit({place: -1}),
        lambda consumer, place: consumer.end_offsets(place),
        lambda consumer, place: consumer.offsets_for_times({place: -1}),
        lambda consumer, _: consumer.partitions_for(None),
        lambda consumer, _: consumer.poll(float("nan")),
        lambda consumer, _: consumer.poll(0, max_records=0),
    ],
)
async def test_a_refused_argument_leaves_a_consumer_usable(
    bootstrap: str,
    topic: str,
    name: str,
    producer: Producer,
    misuse: Callable[[Any, TopicPartition], Awaitable[object]],
) -> None:
    place = TopicPartition(topic, 0)
    await producer.send_and_wait(topic, b"1", partition=0)
    async with Consumer(bootstrap, group_id=name, auto_offset_reset="earliest") as consumer:
        with pytest.raises((TypeError, ValueError)):
            await misuse(consumer, place)
        await consumer.subscribe(topic)
        assert [record.value for record in await consumer.poll(DEADLINE_MS)] == [b"1"]


@pytest.mark.parametrize(
    "offsets", [None, [], {"orders": 1}, {("orders", 0): None}, {("orders", 0): -1}]
)
async def test_refused_offsets_leave_the_transaction_open(
    bootstrap: str, topic: str, name: str, offsets: Any
) -> None:
    place = TopicPartition(topic, 0)
    async with Producer(bootstrap, transactional_id=name) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            with pytest.raises((TypeError, ValueError)):
                await producer.send_offsets_to_transaction(offsets, name)
            with pytest.raises(ValueError, match="the id of the group is empty"):
                await producer.send_offsets_to_transaction({place: 5}, "")
            await producer.send_offsets_to_transaction({place: 5}, name)
    async with Admin(bootstrap) as admin:
        # Kafka writes the markers after its response to the commit.
        found = await admin.list_group_offsets(name, [place], require_stable=True)
    assert found == {place: OffsetAndMetadata(5)}


@pytest.mark.parametrize("partitions", [TopicPartition("orders", 0), "orders", [("orders", "0")]])
async def test_refused_input_partitions_leave_a_producer_usable(
    bootstrap: str, name: str, partitions: Any
) -> None:
    async with Producer(bootstrap, transactional_id=name) as producer:
        with pytest.raises(TypeError, match="partition"):
            await producer.init_transactions(partitions, name, 1)
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.abort_transaction()


async def test_offsets_of_a_partition_that_does_not_exist_name_it(
    bootstrap: str, topic: str, name: str
) -> None:
    async with Producer(bootstrap, transactional_id=name, max_block_ms=2_000) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        with pytest.raises(AbortableError, match=f"partition {topic}-7"):
            await producer.send_offsets_to_transaction({TopicPartition(topic, 7): 5}, name)
        await producer.abort_transaction()


class PlainListener(RebalanceListener):
    """A listener with plain functions, as in other clients."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_partitions_assigned(self, *_: object) -> Any:
        self.calls.append("assigned")

    def on_partitions_revoked(self, *_: object) -> Any:
        self.calls.append("revoked")


async def test_the_callbacks_of_a_listener_may_be_plain_functions(
    bootstrap: str, topic: str, name: str, producer: Producer
) -> None:
    await producer.send_and_wait(topic, b"1", partition=0)
    listener = PlainListener()
    async with Consumer(bootstrap, group_id=name, auto_offset_reset="earliest") as consumer:
        await consumer.subscribe(topic, listener)
        assert len(await consumer.poll(DEADLINE_MS)) == 1
        await consumer.unsubscribe()
    assert listener.calls == ["assigned", "revoked"]
    await listener.on_partitions_lost([])
    assert listener.calls == ["assigned", "revoked", "revoked"]


def test_a_transaction_with_cancelled_offsets_cannot_be_committed() -> None:
    """It is unknown whether the transaction has the offsets. A commit without the offsets would let
    another consumer read and write the same records again."""
    broker = ScriptedBroker()
    broker.script = lambda api, _: DROP if api is ApiKey.TXN_OFFSET_COMMIT else None

    async def scenario() -> None:
        async with Producer("broker:9092", transactional_id="x") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(TOPIC, b"1")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 5}, "g")
            with pytest.raises(AbortableError, match="send_offsets_to_transaction was cancelled"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(TOPIC, b"2")

    simulated(broker, scenario)


async def test_poll_raises_the_error_of_an_illegal_topic(bootstrap: str, name: str) -> None:
    """Metadata.maybeThrowAnyException of the Java client."""
    async with Consumer(bootstrap, group_id=name) as consumer:
        await consumer.subscribe(["orders", "^orders.*"])
        with pytest.raises(KafkaError, match=r"\^orders\.\*: the broker refuses the name") as found:
            await consumer.poll(DEADLINE_MS)
        assert found.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_poll_raises_the_error_of_a_topic_without_rights() -> None:
    broker = ScriptedBroker()

    def script(api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.METADATA or not request.topics:
            return None
        response = broker.respond(api, 9, request)
        for row in response.topics:
            row.error_code, row.partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []
        return response

    broker.script = script

    async def scenario() -> None:
        async with Consumer("broker:9092", group_id="g") as consumer:
            await consumer.subscribe("salaries")
            with pytest.raises(AuthorizationError, match="salaries"):
                await consumer.poll(DEADLINE_MS)

    simulated(broker, scenario)


async def test_a_single_name_is_no_list_of_names(admin: Admin, name: str) -> None:
    """The letters of a text would count as names: `delete_topics("ab")` must not delete a and b."""
    single: Any = NewTopic("a")
    for misuse in (
        lambda: admin.create_topics(name),
        lambda: admin.create_topics(single),
        lambda: admin.delete_topics("ab"),
        lambda: admin.describe_topics(name),
        lambda: admin.describe_groups(name),
        lambda: admin.delete_groups(name),
        lambda: admin.describe_transactions(name),
        lambda: admin.fence_producers(name),
        lambda: admin.list_groups(states="Stable"),
        lambda: admin.list_transactions(states="Ongoing"),
    ):
        with pytest.raises(TypeError, match=r"pass a list, \["):
            await misuse()
    assert name not in await admin.list_topics()


async def test_a_wrong_value_deep_in_a_request_is_named(admin: Admin, name: str) -> None:
    wrong: Any = {"retention.ms": 5}
    with pytest.raises(TypeError, match=r"topics\[0\]\.configs\[0\]\.value is int, not str"):
        await admin.create_topics([NewTopic(name, configs=wrong)])
    await admin.create_topics([name])
