"""Producer and consumer with OpenTelemetry spans: `pip install 'oncelog[otel]'`, then
`from oncelog_client.otel import Consumer, Producer`.

The spans follow OpenTelemetry's semantic conventions for messaging and for Kafka: `send` of a
producer, `poll` and `commit` of a consumer, and `process`, which an application opens around its
own work. The headers of a record have the context of its trace, so a trace continues at the
consumer, whatever client is on the other side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

from oncelog_client import consumer, producer
from oncelog_client.errors import KafkaError
from oncelog_client.values import (
    ConsumerRecord,
    Header,
    K,
    OffsetAndMetadata,
    RecordMetadata,
    TopicPartition,
    V,
)
from oncelog_protocol import __version__

_SYSTEM: Final = {"messaging.system": "kafka"}
Headers = Sequence[Header]


class _HeaderSetter(Setter[list[Header]]):
    def set(self, carrier: list[Header], key: str, value: str) -> None:
        # A forwarded record may have the context of its first producer.
        carrier[:] = [header for header in carrier if header[0] != key]
        carrier.append((key, value.encode()))


class _HeaderGetter(Getter[Headers]):
    def get(self, carrier: Headers, key: str) -> list[str] | None:
        found = [content for name, content in carrier if name == key and content]
        # Any producer can write any bytes. A context that is no text is ignored.
        return [found[-1].decode(errors="replace")] if found else None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


_SETTER: Final = _HeaderSetter()
_GETTER: Final = _HeaderGetter()


def context_of(record: ConsumerRecord[Any, Any]) -> Context:
    """Return the context that the record's producer has put into its headers."""
    return propagate.extract(record.headers, getter=_GETTER)


class Producer(producer.Producer[K, V]):
    """A producer with a span `send <topic>` for each record, from `send` to the outcome."""

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Buffer a record, as `oncelog_client.Producer.send`. Its headers get the context of the
        span."""
        attributes: dict[str, Any] = {
            **_SYSTEM,
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": topic,
            "messaging.client.id": self.config.client_id,
        }
        if value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        if isinstance(key, str):
            attributes["messaging.kafka.message.key"] = key
        span = _tracer().start_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        carrier = list(headers)
        propagate.inject(carrier, trace.set_span_in_context(span), _SETTER)
        try:
            delivery = await super().send(
                topic, value, key, headers=carrier, partition=partition, timestamp_ms=timestamp_ms
            )
        except BaseException as error:
            _end(span, error)
            raise
        delivery.add_done_callback(lambda done: _delivered(span, done))
        return delivery


class Consumer(consumer.Consumer[K, V]):
    """A consumer with a span for each `poll` that returns records and for each `commit`, and with
    `processing` for the spans of an application's work. An iteration over the consumer has no span
    of its own for each record."""

    async def poll(
        self, timeout_ms: float = 0, *, max_records: int | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """Return the next records, as `oncelog_client.Consumer.poll`. The span links to the spans
        of the producers."""
        records = await super().poll(timeout_ms, max_records=max_records)
        if records:
            links = [
                Link(trace.get_current_span(context_of(record)).get_span_context())
                for record in records
            ]
            attributes = self._attributes("poll", "receive", {record.topic for record in records})
            attributes["messaging.batch.message_count"] = len(records)
            _tracer().start_span(
                _name("poll", {record.topic for record in records}),
                kind=SpanKind.CLIENT,
                attributes=attributes,
                links=[link for link in links if link.context.is_valid],
            ).end()
        return records

    @contextmanager
    def processing(self, record: ConsumerRecord[K, V]) -> Iterator[Span]:
        """Open the span `process <topic>` around the work on a record. Its parent is the span of
        the record's producer. An exception ends the span as failed, and is raised."""
        attributes = self._attributes("process", "process", {record.topic})
        attributes["messaging.destination.partition.id"] = str(record.partition)
        attributes["messaging.kafka.offset"] = record.offset
        if record.value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        if isinstance(record.key, str):
            attributes["messaging.kafka.message.key"] = record.key
        span = _tracer().start_span(
            f"process {record.topic}",
            context=context_of(record),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
        )
        try:
            with trace.use_span(span):
                yield span
        except BaseException as error:
            _end(span, error)
            raise
        span.end()

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """Commit offsets, as `oncelog_client.Consumer.commit`."""
        topics = {place.topic for place in (self.assignment() if offsets is None else offsets)}
        span = _tracer().start_span(
            _name("commit", topics),
            kind=SpanKind.CLIENT,
            attributes=self._attributes("commit", "settle", topics),
        )
        try:
            await super().commit(offsets)
        except BaseException as error:
            _end(span, error)
            raise
        span.end()

    def _attributes(self, name: str, kind: str, topics: set[str]) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            **_SYSTEM,
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
            "messaging.client.id": self.config.client_id,
        }
        if len(topics) == 1:
            attributes["messaging.destination.name"] = min(topics)
        if self.config.group_id is not None:
            attributes["messaging.consumer.group.name"] = self.config.group_id
        return attributes


def _tracer() -> Tracer:
    return trace.get_tracer("oncelog_client", __version__)


def _name(operation: str, topics: set[str]) -> str:
    """Return the name of a span. A span of several topics is named by its operation alone."""
    return f"{operation} {min(topics)}" if len(topics) == 1 else operation


def _delivered(span: Span, done: asyncio.Future[RecordMetadata]) -> None:
    if done.cancelled():
        _end(span, asyncio.CancelledError())
        return
    error = done.exception()
    if error is None:
        written = done.result()
        span.set_attribute("messaging.destination.partition.id", str(written.partition))
        if written.offset >= 0:
            span.set_attribute("messaging.kafka.offset", written.offset)
    _end(span, error)


def _end(span: Span, error: BaseException | None) -> None:
    """End the span. `error.type` is Kafka's name of the error code, or the exception's class."""
    if error is not None:
        kind = error.code.name if isinstance(error, KafkaError) else type(error).__name__
        span.set_attribute("error.type", kind)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()
