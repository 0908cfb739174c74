"""`oncelog produce`: the flags of kafka-console-producer, and transactions."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from io import BytesIO
from typing import IO, Any, Final, cast

import click

from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import Target, connected, target, timeout_when_lost, watched
from oncelog_client.cli.failures import Failed, Interrupted
from oncelog_client.cli.interrupts import Stop
from oncelog_client.cli.missing_rights import name_missing_right
from oncelog_client.cli.names import INT32_MAX, INT64_MAX, MILLISECONDS, NAME, PARTITION
from oncelog_client.cli.options import (
    connection_options,
    dotted,
    output_option,
    parse_settings,
    run,
    split_pair,
)
from oncelog_client.cli.output import note, show_json
from oncelog_client.cli.progress import Progress
from oncelog_client.cli.quantities import count_text
from oncelog_client.cli.record_flags import FixedParts, Reader, one_topic, report_to
from oncelog_client.cli.record_lines import LineReader
from oncelog_client.cli.standard_input import lines_of
from oncelog_client.cli.topic_lookup import warning_if_new
from oncelog_client.errors import CommitOutcomeUnknown, KafkaError, SettingsWarning
from oncelog_client.producer import Producer
from oncelog_client.values import RecordMetadata
from oncelog_protocol.errors import ErrorCode

# Called with the error of a record, and the sizes of its key and its value.
RefusedRecord = Callable[[KafkaError, int | None, int | None], None]
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
CLOSING_MS: Final = 150
UNANSWERED: Final = 10_000  # maximum number of records without a response


@click.command(
    cls=Tool,
    examples=[
        "produce orders < orders.txt",
        "produce orders -k 7 -H source=shell -p 0",
        "produce orders -k 7 --tombstone",
        "produce orders --property parse.key=true --property key.separator=:",
        "produce orders --transactional-id loader --transaction-size 1000",
    ],
)
@connection_options
@output_option
@click.argument("topic_name", type=NAME, metavar="[TOPIC]", required=False)
@click.option("--topic", type=NAME, metavar="NAME", help="The topic to write to.")
@click.option("-k", "--key", metavar="KEY", help="The key of every record.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header.")
@click.option("-p", "--partition", type=PARTITION, metavar="N", help="Write to this partition.")
@click.option("--tombstone", is_flag=True, help="Write one record with -k and no value.")
@click.option("-v", "--verbose", is_flag=True, help="Print where each record is written.")
@click.option("--compression-codec", type=click.Choice(CODECS), help="Compression of batches.")
@click.option(
    "--request-required-acks",
    type=click.Choice(["-1", "0", "1", "all"]),
    help="Replicas that must have a record: none (0), the leader (1), all (-1).",
)
@click.option(
    "--batch-size",
    type=click.IntRange(1, INT32_MAX),
    metavar="BYTES",
    help="Largest size of a batch.",
)
@click.option(
    *("--timeout", "linger_ms"),
    type=MILLISECONDS,
    metavar="MS",
    help="How long a batch waits for more records (linger.ms).",
)
@click.option("--sync", is_flag=True, help="Wait for the response to each record.")
@click.option(
    *("--property", "--reader-property", "properties"),
    multiple=True,
    metavar="NAME=VALUE",
    help="How a line is read: parse.key, parse.headers, key.separator, null.marker.",
)
@click.option(
    *("--command-property", "--producer-property", "settings"),
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the producer.",
)
@click.option("--kafka-summary", is_flag=True, hidden=True)  # for kafka-console-producer.sh
@click.option("--transactional-id", type=NAME, metavar="ID", help="Write in transactions.")
@click.option(
    "--transaction-size",
    type=click.IntRange(1, INT64_MAX),
    metavar="LINES",
    help="Lines in each transaction.  [default: all lines]",
)
def produce(
    *,
    topic_name: str | None,
    topic: str | None,
    output: str,
    **flags: Any,
) -> None:
    """Write the lines of standard input to TOPIC.

    After Ctrl-C, the lines that have been read are still written, but an open transaction is
    aborted. On a terminal, and with -v, each record's partition and offset are printed.
    """
    topic = one_topic(topic_name, topic)
    if topic is None:
        raise click.UsageError("no topic is named: give its name")
    where = bootstrap_server, given, give_up_after = target()
    timeout_s = timeout_when_lost()
    settings = _settings(given, flags)
    lines = LineReader.from_properties(dict(map(split_pair, flags["properties"])))
    tombstone = flags["tombstone"]
    reader = FixedParts(lines, flags["key"], flags["headers"], tombstone=tombstone)
    standard_input = BytesIO(b"\n") if tombstone else cast(IO[bytes], sys.stdin.buffer)
    is_dialogue = sys.stdin.isatty() and sys.stdout.isatty()
    verbose = flags["verbose"] or is_dialogue
    report = report_to(output, wanted=verbose)

    async def call() -> Stop:
        producer = _producer(bootstrap_server, settings)
        stop = Stop()
        written: Written | None = None
        with stop.listening():
            try:
                async with connected(producer, give_up_after, "WRITE"):
                    await _find(producer, topic, where._replace(settings=settings))
                    with Progress("records written", sys.stdin) as progress:
                        written = Written(
                            producer,
                            topic,
                            reader,
                            flags["sync"] or is_dialogue,
                            progress,
                            stop,
                            flags["partition"],
                            report,
                            click.get_current_context().obj,
                        )
                        stop.words = written.summary
                        writing = written.write_all(standard_input, flags["transaction_size"])
                        await _ended(written, writing, timeout_s)
            except asyncio.CancelledError:
                if written is None or not stop.is_set:
                    raise
            # Signals are still handled here, so that another signal does not interrupt the message.
            if not flags["kafka_summary"]:  # Kafka's tool prints no summary
                _say(written, output)
            stop.words = lambda: ""
        return stop

    if run(call()).is_set:
        raise Interrupted("")


def _say(written: Written, output: str) -> None:
    """Print the number of written records."""
    if output == "json":
        transactional = written.producer.config.transactional_id is not None
        counts = {"transactions": written.transactions} if transactional else {}
        show_json({"topic": written.topic, "records": written.records, **counts})
    else:
        note(written.summary())


def _settings(given: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """Return the producer's settings. A flag overrides --producer-property, which overrides the
    --command-config file.

    Raises click.UsageError for a transaction size without transactions.
    """
    settings = given | parse_settings(flags["settings"])
    for name, value in (
        ("compression_type", flags["compression_codec"]),
        ("acks", flags["request_required_acks"]),
        ("batch_size", flags["batch_size"]),
        ("linger_ms", flags["linger_ms"]),
        ("transactional_id", flags["transactional_id"]),
    ):
        if value is not None:
            settings[name] = value
    if flags["transaction_size"] and settings.get("transactional_id") is None:
        raise click.UsageError("--transaction-size needs --transactional-id")
    return settings


def _producer(bootstrap_server: str, settings: dict[str, Any]) -> Producer:
    """Return a producer, and print the producer's warnings, unless Kafka's tool runs."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", SettingsWarning)
        producer = Producer(bootstrap_server, **settings)
    if click.get_current_context().obj is not None:
        return producer  # kafka-console-producer.sh logs this at a level that it does not print.
    for warning in warned:
        note(f"Warning: {dotted(str(warning.message))}")
    return producer


async def _find(producer: Producer, topic: str, where: Target) -> None:
    """Print a note if the topic will be created. Raises Failed if the topic does not exist and will
    not be created. Without this check, the producer's first record would wait for the topic for
    `max_block_ms`."""
    if click.get_current_context().obj is not None:
        return  # kafka-console-producer.sh waits in `send`, and logs each refused record.
    server, settings, give_up_after = where
    # This check precedes the producer's request, which creates the topic.
    created = await warning_if_new(server, settings, topic, give_up_after)
    try:
        async with asyncio.timeout(give_up_after):
            await producer.partitions_for(topic)
    except TimeoutError as error:
        failure = producer.topic_failure(topic)
        if failure is not None and failure.code is ErrorCode.KAFKA_STORAGE_ERROR:
            raise Failed(
                f"topic {topic} cannot be created, because the broker's disk refuses it "
                f"({failure}): `oncelog cluster health` shows the disks; gave up after "
                f"{give_up_after:g} s"
            ) from error
        raise Failed(
            f"there is no topic {topic} to write to; gave up after {give_up_after:g} s"
        ) from error
    if created:
        note(created)


async def _ended(written: Written, writing: Coroutine[Any, Any, None], timeout_s: float) -> None:
    """Write the records, and watch the connection. After a failure, records that are not sent yet
    are dropped. The same applies after a signal, if the writing does not end soon.

    Raises Failed, with the number of written records, if no broker is reached any more, a line is
    invalid, or the broker refuses a record.
    """
    try:
        await watched(written.producer, writing, timeout_s)
    except (Failed, KafkaError) as error:
        if written.refused_record is not None and isinstance(error, KafkaError):
            raise
        # A short timeout instead of max_block_ms, because the user has waited already.
        await written.producer.close(timeout_ms=CLOSING_MS)
        name_missing_right(error, written.producer.config, "WRITE")
        raise Failed(f"{error}; {written.summary()}") from error
    except asyncio.CancelledError:
        if not written.stop.is_set:
            raise
        await written.producer.close(timeout_ms=CLOSING_MS)


@dataclass(slots=True)
class Written:
    """Writes the records of one run, and counts the records that the broker has confirmed
    (`records`)."""

    producer: Producer
    topic: str
    reader: Reader
    sync: bool
    progress: Progress
    stop: Stop
    partition: int | None = None
    report: Callable[[RecordMetadata], None] | None = None
    refused_record: RefusedRecord | None = None
    lines: int = 0
    records: int = 0
    refused: int = 0
    transactions: int = 0
    unfinished: str = ""  # the outcome of the last transaction, if it was not committed
    _committed: int = 0
    _unanswered: deque[asyncio.Future[RecordMetadata]] = field(default_factory=deque)
    # The sizes of key and value for each response of `_unanswered`, if `refused_record` is set.
    _sizes: deque[tuple[int | None, int | None]] = field(default_factory=deque)

    def summary(self) -> str:
        """Return the summary for people: `3 records written to orders`."""
        self._settle()
        text = f"{count_text(self.records, 'record')} written to {self.topic}"
        if self.refused:
            text += f", {self.refused} refused"
        if self.producer.config.transactional_id is not None:
            text += f" in {count_text(self.transactions, 'transaction')}"
        if self.unfinished:
            text += f"; {self.unfinished}"
        elif self._unanswered:
            unknown = count_text(len(self._unanswered), "more record")
            text += f"; whether {unknown} arrived is unknown"
        return f"{text}; interrupted" if self.stop.is_set else text

    async def write_all(self, stream: IO[bytes], transaction_size: int | None) -> None:
        """Write each line of `stream`, up to its end or until a signal. With a transactional id,
        each transaction has `transaction_size` lines, or all lines if it is None.

        Raises Failed for a line that lacks a part, such as its key, and for a line of more than
        `max_request_size` bytes. The error aborts an open transaction.
        """
        # For kafka-console-producer.sh, the producer refuses a line that is too long.
        is_strict = self.refused_record is None
        longest = self.producer.config.max_request_size if is_strict else sys.maxsize
        lines = lines_of(stream, self.stop.event, longest)
        if self.producer.config.transactional_id is None:
            async for only in lines:
                await self._write(only)
            await self._answered(0)
            return
        await self.producer.init_transactions()
        while (first := await anext(lines, None)) is not None:
            await self._one_transaction(first, lines, transaction_size)

    async def _one_transaction(
        self, first: bytes, lines: AsyncIterator[bytes], size: int | None
    ) -> None:
        """Write one transaction of `size` lines, or of all lines if `size` is None. A signal aborts
        the transaction."""
        count = 0
        committing = False
        try:
            async with self.producer.transaction():
                line: bytes | None = first
                while line is not None:
                    await self._write(line)
                    count += 1
                    line = None if count == size else await anext(lines, None)
                if self.stop.is_set:
                    raise _Stopped
                await self._answered(0)
                committing = True
        except BaseException as error:
            self._unfinished(error, count, committing=committing)
            if isinstance(error, _Stopped):
                return
            raise
        self.transactions += 1
        self._committed = self.records

    def _unfinished(self, error: BaseException, count: int, *, committing: bool) -> None:
        """Record that `error` ended a transaction of `count` records without a commit."""
        if isinstance(error, CommitOutcomeUnknown):
            return  # The error's message says that the outcome is unknown.
        self.records = self._committed
        self._forget()
        if not isinstance(error, asyncio.CancelledError):
            self.unfinished = "the open transaction is aborted"
        elif committing:
            records = count_text(count, "more record")
            self.unfinished = f"whether a transaction of {records} is committed is unknown"
        else:
            # The abort may have been cancelled as well. Then the timeout aborts the transaction.
            self.unfinished = "the open transaction is not committed"

    def _forget(self) -> None:
        """Forget the records of an unfinished transaction, because `unfinished` describes their
        outcome."""
        for response in self._unanswered:
            response.cancel()
        self._unanswered.clear()

    async def _write(self, line: bytes) -> None:
        self.lines += 1
        try:
            key, value, headers = self.reader.read(line)
        except ValueError as error:
            await self._answered(0)
            raise Failed(f"line {self.lines}: {error}") from error
        sizes = (None if key is None else len(key), None if value is None else len(value))
        try:
            response = await self.producer.send(
                self.topic, value, key, headers=headers, partition=self.partition
            )
        except KafkaError as error:
            if self.refused_record is None or self.sync:
                raise
            self.refused_record(error, *sizes)
            return
        self._unanswered.append(response)
        if self.refused_record is not None:
            self._sizes.append(sizes)
        await self._answered(0 if self.sync else UNANSWERED)

    async def _answered(self, rest: int) -> None:
        """Wait until at most `rest` records are in flight. Raises the first error."""
        if rest == 0 and self._unanswered:
            await self.producer.flush()
        while self._unanswered and (len(self._unanswered) > rest or self._unanswered[0].done()):
            # The record stays in the queue until its outcome is known, for the summary.
            try:
                written = await asyncio.shield(self._unanswered[0])
            except KafkaError as error:
                if self.refused_record is None or self.sync:
                    raise
                self._unanswered.popleft()
                self.refused_record(error, *self._sizes.popleft())
                continue
            self._unanswered.popleft()
            if self._sizes:
                self._sizes.popleft()
            self.records += 1
            self.progress.advance(self.records)
            if self.report is not None:
                self.report(written)

    def _settle(self) -> None:
        """Count the records that the broker has confirmed or refused meanwhile."""
        unknown: deque[asyncio.Future[RecordMetadata]] = deque()
        for response in self._unanswered:
            if not response.done() or response.cancelled():
                unknown.append(response)
                continue
            error = response.exception()
            if error is None:
                self.records += 1
            elif isinstance(error, KafkaError) and error.not_written:
                self.refused += 1
            else:
                unknown.append(response)
        self._unanswered = unknown


class _Stopped(Exception):
    """The user has interrupted a transaction. This exception aborts the transaction."""
