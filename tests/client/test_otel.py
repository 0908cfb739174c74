"""The spans of producer and consumer, as OpenTelemetry's SDK exports them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from oncelog_client import ConsumerRecord, KafkaError, TopicPartition
from oncelog_client.otel import Consumer, Producer, context_of
from oncelog_client.serialization import StringDeserializer, StringSerializer
from tests.harness.client_reading import read

EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def _provider() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)


@pytest.fixture(autouse=True)
def _no_spans() -> Iterator[None]:
    EXPORTER.clear()
    yield
    EXPORTER.clear()


def spans(name: str) -> list[ReadableSpan]:
    return [span for span in EXPORTER.get_finished_spans() if span.name == name]


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


async def test_a_trace_goes_from_the_producer_to_the_processing(
    bootstrap: str, topic: str, name: str
) -> None:
    """The attributes are those of the semantic conventions for messaging and Kafka."""
    tracer = trace.get_tracer("application")
    async with Producer(bootstrap, client_id="shop", key_serializer=StringSerializer()) as producer:
        with tracer.start_as_current_span("order") as order:
            await producer.send_and_wait(topic, b"v", "k", headers=[("mine", b"1")], partition=1)
    (sent,) = spans(f"send {topic}")
    assert sent.kind is SpanKind.PRODUCER
    assert sent.parent is not None
    assert sent.parent.span_id == order.get_span_context().span_id
    assert attributes(sent) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "1",
        "messaging.kafka.message.key": "k",
        "messaging.kafka.offset": 0,
        "messaging.client.id": "shop",
    }
    place = TopicPartition(topic, 1)
    async with Consumer(
        bootstrap, group_id=name, key_deserializer=StringDeserializer()
    ) as consumer:
        await consumer.assign([place])
        await consumer.seek_to_beginning()
        (record,) = await read(consumer, 1)
        assert record.headers[0] == ("mine", b"1")
        with consumer.processing(record) as processing:
            inner = trace.get_current_span()
            assert inner is processing
        await consumer.commit()
    assert sent.context is not None
    for span in (spans(f"process {topic}")[0], spans(f"poll {topic}")[0]):
        assert attributes(span)["messaging.consumer.group.name"] == name
    (processed,) = spans(f"process {topic}")
    assert processed.kind is SpanKind.CONSUMER
    assert processed.parent is not None
    assert processed.parent.span_id == sent.context.span_id
    assert processed.context is not None
    assert processed.context.trace_id == order.get_span_context().trace_id
    assert attributes(processed)["messaging.kafka.offset"] == 0
    (polled,) = spans(f"poll {topic}")
    assert [link.context.span_id for link in polled.links] == [sent.context.span_id]
    assert attributes(polled)["messaging.operation.type"] == "receive"
    assert attributes(polled)["messaging.batch.message_count"] == 1
    (committed,) = spans(f"commit {topic}")
    assert attributes(committed)["messaging.operation.type"] == "settle"


async def test_a_failed_send_ends_its_span_with_the_error(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap) as producer:
        with pytest.raises(KafkaError):
            await producer.send(topic, b"", partition=9)
    (failed,) = spans(f"send {topic}")
    assert failed.status.status_code is StatusCode.ERROR
    assert attributes(failed)["error.type"] == "UNKNOWN_TOPIC_OR_PARTITION"


async def test_a_failed_processing_ends_its_span_with_the_error(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap) as producer, Consumer(bootstrap) as consumer:
        await producer.send_and_wait(topic, None, b"key", partition=0)
        await consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        (record,) = await read(consumer, 1)

        def fail() -> None:
            with consumer.processing(record):
                raise LookupError("no such customer")

        with pytest.raises(LookupError):
            fail()
    (failed,) = spans(f"process {topic}")
    assert attributes(failed)["error.type"] == "LookupError"
    assert attributes(failed)["messaging.kafka.message.tombstone"] is True


async def test_a_record_without_a_context_is_processed_in_a_new_trace(
    bootstrap: str, topic: str
) -> None:
    from oncelog_client import Producer as PlainProducer

    async with PlainProducer(bootstrap) as producer, Consumer(bootstrap) as consumer:
        await producer.send_and_wait(topic, b"v", partition=0)
        await consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        (record,) = await read(consumer, 1)
        assert not trace.get_current_span(context_of(record)).get_span_context().is_valid
        with consumer.processing(record):
            pass
    (processed,) = spans(f"process {topic}")
    assert processed.parent is None
    (polled,) = spans(f"poll {topic}")
    assert not polled.links


@pytest.mark.parametrize("content", [b"\xff\xfe", b"no trace", b""])
def test_a_header_that_is_no_context_is_ignored(content: bytes) -> None:
    """Any producer can write any bytes. A poll must not fail because of them."""
    record = ConsumerRecord("t", 0, 0, 0, None, b"v", (("traceparent", content),))
    assert not trace.get_current_span(context_of(record)).get_span_context().is_valid


async def test_a_forwarded_record_continues_the_newest_trace(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap) as producer, Consumer(bootstrap) as consumer:
        await producer.send_and_wait(topic, b"first", headers=[("mine", b"1")], partition=0)
        await consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        (record,) = await read(consumer, 1)
        await producer.send_and_wait(topic, b"second", headers=record.headers, partition=0)
        (forwarded,) = await read(consumer, 1)
    assert [name for name, _ in forwarded.headers].count("traceparent") == 1
    assert ("mine", b"1") in forwarded.headers
    sent = {span.context.span_id for span in spans(f"send {topic}") if span.context is not None}
    contexts = [
        trace.get_current_span(context_of(each)).get_span_context().span_id
        for each in (record, forwarded)
    ]
    assert set(contexts) == sent
