"""The synchronous clients: the methods of the async clients, each call with its result."""

from __future__ import annotations

import asyncio
import gc
import inspect
import multiprocessing
import signal
import sys
import threading
from concurrent.futures import Future
from typing import Any

import pytest

import oncelog_client
from oncelog_client import (
    ClosedError,
    IllegalStateError,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    RecordTooLargeError,
    TopicPartition,
    sync,
)
from oncelog_client.serialization import StringDeserializer, StringSerializer
from oncelog_client.sync import Admin, Consumer, Producer
from oncelog_client.sync.loop import loop_thread
from oncelog_client.sync.producer import _concurrent
from tests.harness.logged import logged
from tests.harness.waiting import DEADLINE_S, wait_until

MISSING = {("Admin", "state_log")}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("name", sync.__all__)
def test_a_class_has_the_methods_of_the_async_class(name: str) -> None:
    ours, theirs = getattr(sync, name), getattr(oncelog_client, name)
    missing = {(name, method) for method in public(theirs) - public(ours)}
    assert missing == MISSING & {(name, method) for method in public(theirs)}
    for method in public(theirs) & public(ours):
        assert not inspect.iscoroutinefunction(getattr(ours, method)), method
        assert inspect.getdoc(getattr(ours, method)), method


@pytest.fixture
def place(bootstrap: str, name: str) -> TopicPartition:
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    return TopicPartition(name, 0)


def read(consumer: Consumer[Any, Any], count: int) -> list[Any]:
    """Return the values of the next records."""
    values: list[Any] = []
    for record in consumer:
        values.append(record.value)
        if len(values) == count:
            break
    return values


def test_records_are_sent_and_read(bootstrap: str, place: TopicPartition) -> None:
    with Producer(bootstrap, value_serializer=StringSerializer()) as producer:
        sent = [producer.send(place.topic, f"{number}", partition=0) for number in range(10)]
        offsets = [future.result(DEADLINE_S).offset for future in sent]
        assert offsets == [*range(10)]
        assert producer.send_and_wait(place.topic, "10", partition=0).offset == 10
    with Consumer(bootstrap, value_deserializer=StringDeserializer()) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning()
        assert read(consumer, 11) == [f"{number}" for number in range(11)]
        assert consumer.position(place) == 11
        consumer.seek(place, 9)
        assert [record.value for record in consumer.poll(DEADLINE_S * 1000)] == ["9", "10"]


def test_a_transaction_commits_or_aborts(bootstrap: str, place: TopicPartition, name: str) -> None:
    class Refused(Exception):
        pass

    def refuse() -> None:
        with producer.transaction():
            producer.send(place.topic, b"aborted", partition=0)
            raise Refused

    with Producer(bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(place.topic, b"one", partition=0)
        with pytest.raises(Refused):
            refuse()
        with producer.transaction() as same:
            assert same is producer
            producer.send(place.topic, b"two", partition=0)
            producer.send_offsets_to_transaction({place: OffsetAndMetadata(1)}, name)
        with pytest.raises(IllegalStateError):
            producer.commit_transaction()
    with Consumer(bootstrap, group_id=name, isolation_level="read_committed") as consumer:
        expected = {place: OffsetAndMetadata(1)}
        wait_until(lambda: consumer.committed(place) == expected, "the offset is committed")
        consumer.assign([place])
        consumer.seek_to_beginning()
        assert read(consumer, 2) == [b"one", b"two"]


def test_a_producer_initializes_with_a_synchronous_consumer(
    bootstrap: str, place: TopicPartition, name: str
) -> None:
    with (
        Consumer(bootstrap, group_id=name) as consumer,
        Producer(bootstrap, transactional_id=name) as producer,
    ):
        consumer.subscribe(place.topic)
        while not consumer.assignment():
            consumer.poll(100)
        producer.init_transactions(consumer)
        with producer.transaction():
            producer.send_offsets_to_transaction(
                {place: OffsetAndMetadata(0)}, consumer.group_metadata()
            )
        # Apache Kafka returns the offset after its coordinator has written the marker.
        expected = {place: OffsetAndMetadata(0)}
        wait_until(lambda: consumer.committed(place) == expected, "the offset is committed")


def test_errors_reach_the_caller(bootstrap: str, place: TopicPartition) -> None:
    with Producer(bootstrap) as producer:
        with pytest.raises(RecordTooLargeError):
            producer.send(place.topic, bytes(2_000_000))
        with pytest.raises(KafkaError):
            producer.send(place.topic, b"", partition=9)
    with pytest.raises(ClosedError):
        producer.send(place.topic, b"")


def test_threads_share_a_producer(bootstrap: str, place: TopicPartition) -> None:
    sent: list[Future[oncelog_client.RecordMetadata]] = []
    with Producer(bootstrap) as producer:

        def work() -> None:
            sent.extend(producer.send(place.topic, b"x", partition=0) for _ in range(50))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        assert sorted(future.result(0).offset for future in sent) == [*range(200)]


def test_ctrl_c_ends_a_wait_and_the_consumer_can_be_used_again(
    bootstrap: str, place: TopicPartition
) -> None:
    with Consumer(bootstrap) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning()
        threading.Timer(0.3, interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(DEADLINE_S * 1000)
        with Producer(bootstrap) as producer:
            producer.send_and_wait(place.topic, b"after", partition=0)
        assert read(consumer, 1) == [b"after"]


def interrupt() -> None:
    """Send SIGINT to the main thread, which waits for a result."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


def test_a_poll_that_ctrl_c_interrupts_at_its_end_loses_no_record() -> None:
    """The poll has already taken the records when the signal comes, so the caller does not get
    them. They are put back."""
    returned: list[list[str]] = []

    async def taken() -> list[str]:
        interrupt()
        return ["record"]

    with pytest.raises(KeyboardInterrupt):
        loop_thread().run(taken(), lost=returned.append)
    wait_until(lambda: returned, "the records are put back")
    assert returned == [["record"]]


def test_an_interrupted_call_waits_for_the_end_of_its_work() -> None:
    ended = threading.Event()

    async def slow() -> None:
        try:
            interrupt()
            await asyncio.sleep(DEADLINE_S)
        finally:
            await asyncio.sleep(0.05)
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        loop_thread().run(slow())
    assert ended.is_set()


def test_an_interrupted_call_has_begun_its_work() -> None:
    """A close that Ctrl-C interrupts before its first step disconnects nevertheless."""
    begun: list[bool] = []
    thread = loop_thread()

    def is_queued(name: str) -> bool:
        handles = list(thread._loop._ready)  # type: ignore[attr-defined]
        names = [getattr(handle._callback, "__qualname__", "") for handle in handles]
        return f"LoopThread.run.<locals>.{name}" in names

    def block() -> None:
        wait_until(lambda: is_queued("start"), "the start of the work is queued")
        interrupt()
        wait_until(lambda: is_queued("<lambda>"), "the cancel is queued")

    async def close() -> None:
        begun.append(True)

    thread._loop.call_soon_threadsafe(block)
    with pytest.raises(KeyboardInterrupt):
        thread.run(close())
    assert begun


def test_a_call_in_a_callback_is_refused(bootstrap: str, place: TopicPartition) -> None:
    refused: Future[BaseException | None] = Future()

    def sends(_: Future[oncelog_client.RecordMetadata]) -> None:
        try:
            producer.send(place.topic, b"in a callback")
        except IllegalStateError as error:
            refused.set_result(error)

    with Producer(bootstrap) as producer:
        producer.send(place.topic, b"x", partition=0).add_done_callback(sends)
        assert "in a callback" in str(refused.result(DEADLINE_S))


def test_the_error_of_a_forgotten_record_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Failed(Exception):
        pass

    async def sending() -> asyncio.Future[oncelog_client.RecordMetadata]:
        delivery: asyncio.Future[oncelog_client.RecordMetadata] = asyncio.Future()
        delivery.set_exception(Failed("no room"))
        return delivery

    async def both() -> list[Future[oncelog_client.RecordMetadata]]:
        return [await _concurrent(sending), await _concurrent(sending)]

    outcomes = loop_thread().run(both())
    wait_until(lambda: all(outcome.done() for outcome in outcomes), "both have failed")
    assert isinstance(outcomes[0].exception(), Failed)
    outcomes.clear()
    gc.collect()
    assert logged(caplog, "oncelog_client.sync.producer") == ["a record was not written: no room"]


def test_an_iteration_over_a_consumer_that_is_not_open_is_an_error() -> None:
    with pytest.raises(ClosedError, match="call start"):
        next(iter(Consumer("localhost:1")))


def _send(bootstrap: str, place: TopicPartition) -> None:
    with Producer(bootstrap) as producer:
        producer.send_and_wait(place.topic, b"from a fork", partition=place.partition)


def test_a_fork_gets_a_loop_of_its_own(bootstrap: str, place: TopicPartition) -> None:
    address = bootstrap.replace("localhost", "127.0.0.1")
    with Producer(bootstrap) as producer:
        producer.send_and_wait(place.topic, b"from the parent", partition=0)
        fork = multiprocessing.get_context("fork").Process(target=_send, args=(address, place))
        fork.start()
        fork.join(DEADLINE_S)
        assert fork.exitcode == 0
        assert producer.send_and_wait(place.topic, b"still here", partition=0).offset == 2


def _send_with(producer: Producer, place: TopicPartition) -> None:
    try:
        producer.send_and_wait(place.topic, b"from a fork")
    except IllegalStateError as error:
        sys.exit(7 if "make a new client" in str(error) else 1)


def test_a_client_of_the_parent_is_refused_in_a_fork(bootstrap: str, place: TopicPartition) -> None:
    with Producer(bootstrap) as producer:
        context = multiprocessing.get_context("fork")
        fork = context.Process(target=_send_with, args=(producer, place))
        fork.start()
        fork.join(DEADLINE_S)
        assert fork.exitcode == 7
