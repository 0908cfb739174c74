"""`oncelog consume`: the flags of kafka-console-consumer."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from secrets import token_hex
from typing import Any, Final

import click

from oncelog_client.cli.connecting import connected, target, watched
from oncelog_client.cli.escaping import json_text
from oncelog_client.cli.failures import Failed, Interrupted
from oncelog_client.cli.interrupts import Stop
from oncelog_client.cli.options import (
    connection_options,
    exactly_one,
    output_option,
    parse_settings,
    run,
    split_pair,
)
from oncelog_client.cli.output import note
from oncelog_client.cli.progress import Progress
from oncelog_client.cli.quantities import count_text
from oncelog_client.cli.record_lines import LineWriter, json_record
from oncelog_client.cli.topic_lookup import find_partitions
from oncelog_client.consumer import Consumer
from oncelog_client.values import ConsumerRecord, TopicPartition

CLOSING_MS: Final = 150
POLL_MS: Final = 1_000


@click.command()
@connection_options
@click.option("--topic", help="What to read.")
@click.option("--include", help="Regular expression of the topics to read.")
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition.")
@click.option("--offset", help="With --partition: earliest, latest or a number.")
@click.option("--from-beginning", is_flag=True, help="From the first record, not the next.")
@click.option("--group", help="Read as a member of this group, and commit.")
@click.option("--max-messages", type=click.IntRange(min=1), help="Stop after so many.")
@click.option("--timeout-ms", type=click.IntRange(min=1), help="Stop after so long without one.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether records of open and aborted transactions are read.",
)
@click.option(
    *("--property", "--formatter-property", "properties"),
    multiple=True,
    help="What is printed: print.key=true, print.offset=true, key.separator=: and so on.",
)
@click.option(
    *("--command-property", "--consumer-property", "settings"),
    multiple=True,
    help="A setting of the consumer: name=value.",
)
@output_option
def consume(
    *,
    output: str,
    **flags: Any,
) -> None:
    """Print the records of a topic."""
    _check(flags)
    bootstrap_server, given, give_up_after = target()
    settings: dict[str, Any] = {
        "isolation_level": flags["isolation_level"],
        "auto_offset_reset": "earliest" if flags["from_beginning"] else "latest",
        "allow_auto_create_topics": False,
        **_membership(flags),
        **given,
        **parse_settings(flags["settings"]),
    }
    writer = LineWriter.from_properties(dict(map(split_pair, flags["properties"])))
    line: Callable[[ConsumerRecord], bytes] = _json_line if output == "json" else writer.write

    async def call() -> Stop:
        consumer = Consumer(bootstrap_server, **settings)
        stop = Stop()
        with stop.listening():
            async with connected(consumer, give_up_after):
                if flags["topic"]:
                    found = await find_partitions(
                        bootstrap_server, settings, flags["topic"], give_up_after
                    )
                    await _point(consumer, found, flags)
                else:
                    await consumer.subscribe(re.compile(flags["include"]))
                try:
                    reading = _print(consumer, line, flags)
                    await watched(consumer, reading, give_up_after, stop.event)
                except Failed:
                    # The broker is gone: nothing can be committed, and no group be left.
                    await consumer.close(timeout_ms=CLOSING_MS)
                    raise
        return stop

    if run(call()).number == signal.SIGINT:
        raise Interrupted("")


def _check(flags: dict[str, Any]) -> None:
    """Raises click.UsageError for flags that do not go together."""
    exactly_one(topic=flags["topic"], include=flags["include"])
    if flags["partition"] is not None and not flags["topic"]:
        raise click.UsageError("--partition needs --topic")
    if flags["partition"] is not None and flags["group"]:
        raise click.UsageError("--partition excludes --group: a group hands partitions out")
    if flags["offset"] is not None:
        if flags["partition"] is None:
            raise click.UsageError("--offset needs --partition")
        if flags["from_beginning"]:
            raise click.UsageError("--offset excludes --from-beginning")
        if flags["offset"] not in {"earliest", "latest"} and not flags["offset"].isdecimal():
            raise click.UsageError("--offset is earliest, latest or a number")


def _membership(flags: dict[str, Any]) -> dict[str, Any]:
    """A pattern needs a group; one nobody named is of this call alone, and commits nothing."""
    if flags["group"]:
        return {"group_id": flags["group"]}
    if flags["include"]:
        return {"group_id": f"console-consumer-{token_hex(4)}", "enable_auto_commit": False}
    return {}


async def _point(
    consumer: Consumer, partitions: list[TopicPartition], flags: dict[str, Any]
) -> None:
    """Say to the consumer what to read of a topic, and from where."""
    if flags["group"]:
        await consumer.subscribe(flags["topic"])
        return
    if flags["partition"] is not None:
        partitions = [one for one in partitions if one.partition == flags["partition"]]
        if not partitions:
            raise click.ClickException(f"there is no {flags['topic']}-{flags['partition']}")
    await consumer.assign(partitions)
    offset = flags["offset"] or ("earliest" if flags["from_beginning"] else "latest")
    if offset == "earliest":
        await consumer.seek_to_beginning()
    elif offset == "latest":
        await consumer.seek_to_end()
    else:
        consumer.seek(partitions[0], int(offset))


async def _print(
    consumer: Consumer,
    line: Callable[[ConsumerRecord], bytes],
    flags: dict[str, Any],
) -> None:
    """Print until enough has been read, nothing came for long enough, or it is stopped."""
    output = sys.stdout.buffer
    limit, timeout_ms = flags["max_messages"], flags["timeout_ms"]
    count = 0
    try:
        with Progress("records read", sys.stdout, limit) as progress:
            while limit is None or count < limit:
                most = consumer.config.max_poll_records
                rest = most if limit is None else min(limit - count, most)
                records = await consumer.poll(timeout_ms or POLL_MS, max_records=rest)
                if not records and timeout_ms is not None:
                    break
                output.write(b"".join(map(line, records)))
                output.flush()
                count += len(records)
                progress.advance(count)
    finally:
        note(count_text(count, "record"))


def _json_line(record: ConsumerRecord) -> bytes:
    return json_text(json_record(record)).encode() + b"\n"
