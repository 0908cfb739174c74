"""`oncelog produce`: the flags of kafka-console-producer, and transactions."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
from threading import Thread
from typing import Any, Final, cast

import click

from oncelog_client.cli.connecting import connected, target
from oncelog_client.cli.options import (
    connection_options,
    output_option,
    parse_settings,
    run,
    split_pair,
)
from oncelog_client.cli.output import show_json
from oncelog_client.cli.progress import Progress
from oncelog_client.cli.record_lines import LineReader
from oncelog_client.producer import Producer
from oncelog_client.values import RecordMetadata

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
UNANSWERED: Final = 10_000  # records on their way before the outcome of the first is looked at


@click.command()
@connection_options
@click.option("--topic", required=True, help="Where to write.")
@click.option("--compression-codec", type=click.Choice(CODECS), help="How batches are compressed.")
@click.option("--request-required-acks", type=click.Choice(["-1", "0", "1", "all"]), help="acks.")
@click.option("--batch-size", type=click.IntRange(min=1), help="Bytes in a batch at most.")
@click.option("--timeout", "linger_ms", type=click.IntRange(min=0), help="linger.ms of a batch.")
@click.option("--sync", is_flag=True, help="Wait for each record before reading the next line.")
@click.option(
    *("--property", "--reader-property", "properties"),
    multiple=True,
    help="How a line is read: parse.key=true, parse.headers=true, key.separator=:, null.marker=x.",
)
@click.option(
    *("--command-property", "--producer-property", "settings"),
    multiple=True,
    help="A setting of the producer: name=value.",
)
@click.option("--transactional-id", help="Write in transactions of this id.")
@click.option(
    "--transaction-size",
    type=click.IntRange(min=1),
    help="Lines in a transaction; all of standard input is one without it.",
)
@output_option
def produce(
    *,
    topic: str,
    output: str,
    **flags: Any,
) -> None:
    """Write the lines of standard input to a topic."""
    bootstrap_server, given, give_up_after = target()
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
    reader = LineReader.from_properties(dict(map(split_pair, flags["properties"])))

    async def call() -> Written:
        async with connected(Producer(bootstrap_server, **settings), give_up_after) as producer:
            await _find(producer, topic, give_up_after)
            with Progress("records written", sys.stdin) as progress:
                written = Written(producer, topic, reader, flags["sync"], progress)
                standard_input = cast(BufferedReader, sys.stdin.buffer)
                await written.write_all(standard_input, flags["transaction_size"])
        return written

    written = run(call())
    if output == "json":
        transactional = settings.get("transactional_id") is not None
        counts = {"transactions": written.transactions} if transactional else {}
        show_json({"topic": topic, "records": written.records, **counts})


async def _find(producer: Producer, topic: str, give_up_after: float) -> None:
    """Raises click.ClickException where there is no such topic, and none is made: a producer's
    first record would wait for it for `max_block_ms`."""
    try:
        async with asyncio.timeout(give_up_after):
            await producer.partitions_for(topic)
    except TimeoutError as error:
        raise click.ClickException(
            f"there is no topic {topic} that could be written to; looked for {give_up_after:g} s"
        ) from error


@dataclass(slots=True)
class Written:
    """What one run writes, and how much of it the broker has confirmed."""

    producer: Producer
    topic: str
    reader: LineReader
    sync: bool
    progress: Progress
    records: int = 0
    transactions: int = 0
    _unanswered: deque[asyncio.Future[RecordMetadata]] = field(default_factory=deque)

    async def write_all(self, stream: BufferedReader, transaction_size: int | None) -> None:
        """Read to the end of `stream`; raises click.ClickException for a line without a key."""
        if self.producer.config.transactional_id is None:
            async for only in _lines(stream):
                await self._write(only)
            await self._answered(0)
            return
        await self.producer.init_transactions()
        lines = _lines(stream)
        while (first := await _next(lines)) is not None:
            async with self.producer.transaction():
                line: bytes | None = first
                count = 0
                while line is not None:
                    await self._write(line)
                    count += 1
                    line = None if count == transaction_size else await _next(lines)
                await self._answered(0)
            self.transactions += 1

    async def _write(self, line: bytes) -> None:
        try:
            key, value, headers = self.reader.read(line)
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        self._unanswered.append(await self.producer.send(self.topic, value, key, headers=headers))
        await self._answered(0 if self.sync else UNANSWERED)

    async def _answered(self, rest: int) -> None:
        """Wait until at most `rest` records are without an answer; raises what went wrong."""
        if rest == 0 and self._unanswered:
            await self.producer.flush()
        while len(self._unanswered) > rest:
            await self._unanswered.popleft()
            self.records += 1
            self.progress.advance(self.records)


async def _next(lines: AsyncIterator[bytes]) -> bytes | None:
    async for line in lines:
        return line
    return None


async def _lines(stream: BufferedReader) -> AsyncIterator[bytes]:
    """Lines without their ends, as they come in. The reads are made in daemon threads, since a read
    of a terminal can neither be awaited nor be ended."""
    rest = b""
    while chunk := await _read(stream):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest


def _read(stream: BufferedReader) -> asyncio.Future[bytes]:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        chunk = stream.read1(1 << 20)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(deliver, chunk)

    def deliver(chunk: bytes) -> None:
        if not answer.done():
            answer.set_result(chunk)

    Thread(target=read, daemon=True).start()
    return answer
