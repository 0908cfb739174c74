"""`oncelog consume`: the flags of kafka-console-consumer."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, takewhile
from secrets import token_hex
from typing import Any, Final

import click

from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import Target, connected, target, timeout_when_lost, watched
from oncelog_client.cli.escaping import json_text
from oncelog_client.cli.failures import Failed, Interrupted
from oncelog_client.cli.interrupts import Stop
from oncelog_client.cli.late_partitions import LatePartitions, leaderless, note_leaderless
from oncelog_client.cli.names import INT32_MAX, INT64_MAX, NAME, PARTITION
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
from oncelog_client.cli.reading_range import Bounds, Selection
from oncelog_client.cli.record_flags import one_topic
from oncelog_client.cli.record_format import HELP as FORMAT_HELP
from oncelog_client.cli.record_format import RecordFormat
from oncelog_client.cli.record_lines import LineWriter, json_record
from oncelog_client.cli.standard_output import StandardOutput
from oncelog_client.cli.topic_lookup import TopicNames, find_partitions
from oncelog_client.consumer import Consumer
from oncelog_client.core.uncommitted import UncommittedRecords
from oncelog_client.errors import KafkaError, RetriableError
from oncelog_client.values import ConsumerRecord, TopicPartition
from oncelog_protocol.errors import ErrorCode

CLOSING_MS: Final = 150
POLL_MS: Final = 1_000
# The last entries before the end of a range may be markers. A poll returns no records for markers,
# so polls are short, and the end is checked after each poll.
BOUNDED_POLL_MS: Final = 50


@click.command(
    cls=Tool,
    examples=[
        "consume orders -o start",
        r"consume orders -e -f '%p %o %k=%v\n'",
        "consume orders -p 0,2 -o -10 -e",
        "consume orders -o @-1h:end --json",
        "consume --include 'orders-.*' --group billing --isolation-level read_committed",
    ],
)
@connection_options
@output_option
@click.argument("topic_name", type=NAME, metavar="[TOPIC]", required=False)
@click.option("--topic", type=NAME, metavar="NAME", help="The topic to read.")
@click.option(
    *("-o", "range"),
    metavar="FROM[:TO]",
    help="start, end, an offset, +N, @-1h (d, h, m, s, ms), @2026-11-22, or -N: the last N"
    " offsets of each partition, markers included. Not with --group.",
)
@click.option(
    "-e",
    "exit_at_end",
    is_flag=True,
    help="Stop at the present end. Not with --group.",
)
@click.option("-p", "partitions", metavar="0,2-4", help="Read only these partitions.")
@click.option("-f", "template", metavar="FORMAT", help=f"Format of a record: {FORMAT_HELP}")
@click.option(
    "--include", type=NAME, metavar="REGEX", help="Read the topics with a name that matches."
)
@click.option("--partition", type=PARTITION, metavar="N", help="Read only this partition.")
@click.option(
    "--offset",
    metavar="OFFSET",
    help="Where --partition starts: earliest, latest, a number.",
)
@click.option("--from-beginning", is_flag=True, help="Start at the first record, not the next.")
@click.option(
    "--group",
    type=NAME,
    metavar="NAME",
    help="Read as a member of this group; commit offsets.",
)
@click.option(
    *("-n", "--max-messages"),
    type=click.IntRange(0, INT64_MAX),
    metavar="N",
    help="End after N records.",
)
@click.option(
    "--timeout-ms",
    type=click.IntRange(1, INT32_MAX),
    metavar="MS",
    help="End after MS milliseconds without a record.",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    help="read_committed: no open or aborted transactions.",
)
@click.option(
    *("--property", "--formatter-property", "properties"),
    multiple=True,
    metavar="NAME=VALUE",
    help="What is printed: print.key=true, key.separator=:",
)
@click.option(
    *("--command-property", "--consumer-property", "settings"),
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the consumer.",
)
@click.option("--kafka-summary", is_flag=True, hidden=True)  # for kafka-console-consumer.sh
def consume(
    *,
    output: str,
    **flags: Any,
) -> None:
    """Print the records of TOPIC, or of all topics that --include names, until Ctrl-C.

    Starts at the next record, with -e at the first; -o sets another start.
    """
    flags["topic"] = one_topic(flags["topic_name"], flags["topic"])
    _check(flags)
    selection = Selection(flags)
    where = target()
    timeout_s = timeout_when_lost()
    settings: dict[str, Any] = {
        **_reading(flags),
        **_membership(flags),
        **_request_timeout(selection, where.give_up_after),
        **where.settings,
        **parse_settings(flags["settings"]),
    }
    flags["names"] = TopicNames("--include", [flags["include"] or ""])
    writer = LineWriter.from_properties(dict(map(split_pair, flags["properties"])))
    line: Callable[[ConsumerRecord], bytes] = _json_line if output == "json" else writer.write
    if flags["template"] is not None:
        if output == "json" or flags["properties"]:
            raise click.UsageError(
                "-f excludes --json and --property: only one of them can format the records"
            )
        line = RecordFormat(flags["template"]).write

    async def call() -> Stop:
        consumer = Consumer(where.bootstrap_server, **settings)
        stop = Stop()
        printed = Printed(uncommitted=consumer.count_uncommitted(), as_kafka=flags["kafka_summary"])
        with stop.listening():
            stop.words = printed.summary
            try:
                async with connected(consumer, where.give_up_after, "READ"):
                    chosen = await _chosen(consumer, where, settings, selection, flags)
                    try:
                        reading = _print(consumer, line, flags, chosen, printed)
                        await watched(consumer, reading, timeout_s, stop.event)
                    except Failed:
                        # No broker can be reached for a commit or for LeaveGroup.
                        await consumer.close(timeout_ms=CLOSING_MS)
                        raise
            except asyncio.CancelledError:
                if not (stop.is_set and printed.is_begun):
                    raise
            finally:
                # The summary follows the commit of offsets, because the output may block. Signals
                # are still handled here, so that another signal does not interrupt the summary.
                if printed.is_begun:
                    note(printed.summary())
                    stop.words = lambda: ""
        return stop

    if run(call()).number == signal.SIGINT:
        raise Interrupted("")


def _check(flags: dict[str, Any]) -> None:
    """Raise click.UsageError if flags are missing, invalid or contradict each other."""
    if not flags["topic"] and not flags["include"]:
        raise click.UsageError("no topic is named: give its name, or --include REGEX for several")
    exactly_one(topic=flags["topic"], include=flags["include"])
    if flags["partition"] is not None and not flags["topic"]:
        raise click.UsageError("--partition needs --topic")
    if flags["partition"] is not None and flags["group"]:
        raise click.UsageError("--partition excludes --group: a group assigns the partitions")
    if flags["offset"] is not None:
        if flags["partition"] is None:
            raise click.UsageError("--offset needs --partition")
        if flags["from_beginning"]:
            raise click.UsageError("--offset excludes --from-beginning")
        if flags["offset"] not in {"earliest", "latest"} and not _is_offset(flags["offset"]):
            raise click.UsageError("--offset must be earliest, latest or a number of 64 bits")


def _is_offset(text: str) -> bool:
    longest = len(str(INT64_MAX))
    return text.isdecimal() and len(text) <= longest and int(text) <= INT64_MAX


def _reading(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the consumer for the isolation level and the start."""
    return {
        "isolation_level": flags["isolation_level"],
        "auto_offset_reset": "earliest" if flags["from_beginning"] else "latest",
        "allow_auto_create_topics": flags["kafka_summary"],
    }


def _membership(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the group settings. A subscription to a pattern needs a group. With --include and
    without --group, the command uses a new group for this call, and commits nothing."""
    if flags["group"]:
        return {"group_id": flags["group"]}
    if flags["include"]:
        return {"group_id": f"console-consumer-{token_hex(4)}", "enable_auto_commit": False}
    return {}


def _request_timeout(selection: Selection, give_up_after: float) -> dict[str, Any]:
    """Return the setting for the timeout of requests for the start and end of partitions. Its value
    is `give_up_after` (s), because the consumer's default of a minute is too long at a prompt.
    Without -o, -e and -p, return no setting."""
    if not selection.is_given:
        return {}
    return {"default_api_timeout_ms": max(round(give_up_after * 1000), 1)}


async def _chosen(
    consumer: Consumer,
    where: Target,
    settings: dict[str, Any],
    selection: Selection,
    flags: dict[str, Any],
) -> Bounds | LatePartitions | None:
    """Subscribe to the topics or assign their partitions. Return the offsets at which reading ends,
    or the partitions that are read later, or None without both."""
    if not flags["topic"]:
        await consumer.subscribe(flags["names"])
        return None
    found = await _partitions(consumer, where, settings, flags)
    if not found:
        return Bounds({})
    if selection.is_given:
        return await selection.point(consumer, found)
    await _point(consumer, found, flags)
    return None


async def _partitions(
    consumer: Consumer, where: Target, settings: dict[str, Any], flags: dict[str, Any]
) -> list[TopicPartition]:
    """Return the partitions of the topic. Raises KafkaError for a topic that does not exist.
    Kafka's tool waits for such a topic instead, and its requests may create it. It returns no
    partition after `timeout_ms`."""
    topic = flags["topic"]
    try:
        return await find_partitions(where.bootstrap_server, settings, topic, where.give_up_after)
    except KafkaError as error:
        if not flags["kafka_summary"] or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        note(f"WARN {error}")
    timeout_ms = flags["timeout_ms"]
    with suppress(TimeoutError):
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while True:
                with suppress(RetriableError):
                    rows = await consumer.partitions_for(topic)
                    return [TopicPartition(topic, row.partition) for row in rows]
    return []


async def _point(
    consumer: Consumer, partitions: list[TopicPartition], flags: dict[str, Any]
) -> None:
    """Subscribe to the topic if a group is given. Otherwise assign its partitions and move to the
    start of reading."""
    if flags["group"]:
        await consumer.subscribe(flags["topic"])
        return
    if flags["partition"] is not None:
        partitions = [
            partition for partition in partitions if partition.partition == flags["partition"]
        ]
        if not partitions:
            raise click.ClickException(f"there is no {flags['topic']}-{flags['partition']}")
    await consumer.assign(partitions)
    if flags["offset"] is None:
        # `auto_offset_reset` is the start of each partition, when the partition has a leader.
        note_leaderless(await leaderless(consumer, partitions))
    elif flags["offset"] == "earliest":
        await consumer.seek_to_beginning()
    elif flags["offset"] == "latest":
        await consumer.seek_to_end()
    else:
        consumer.seek(partitions[0], int(flags["offset"]))


@dataclass(slots=True)
class Printed:
    """The number of printed records, and how many of them are not committed."""

    count: int = 0
    is_begun: bool = False
    uncommitted: UncommittedRecords | None = None
    as_kafka: bool = False

    def summary(self) -> str:
        """Return the summary for people. By default the command prints records of open and aborted
        transactions, as Kafka's tool does, so the summary counts these records."""
        if self.as_kafka:
            return f"Processed a total of {self.count} messages"
        if not self.is_begun:
            return "interrupted"
        text = count_text(self.count, "record")
        aborted, still_open = (0, 0) if self.uncommitted is None else self.uncommitted.count()
        some = [f"{aborted} of them aborted"] if aborted else []
        if still_open:
            some.append(f"{still_open}{'' if aborted else ' of them'} not committed so far")
        return f"{text}, {' and '.join(some)}: see --isolation-level" if some else text


async def _print(
    consumer: Consumer,
    line: Callable[[ConsumerRecord], bytes],
    flags: dict[str, Any],
    chosen: Bounds | LatePartitions | None,
    printed: Printed,
) -> None:
    """Print records until `max_messages` records are printed, all partitions are at their ends, or
    `timeout_ms` passes without a record. The caller cancels this call after a signal."""
    limit, timeout_ms = flags["max_messages"], flags["timeout_ms"]
    bounds = chosen if isinstance(chosen, Bounds) else None
    late = chosen if isinstance(chosen, LatePartitions) else None
    poll_ms = timeout_ms or (POLL_MS if bounds is None else BOUNDED_POLL_MS)
    printed.is_begun = True
    if bounds is not None and printed.uncommitted is not None:
        printed.uncommitted.ends = bounds.ends
    with (
        StandardOutput(sys.stdout.buffer) as output,
        Progress("records read", sys.stdout, limit) as progress,
    ):
        while limit is None or printed.count < limit:
            if bounds is not None and await bounds.reached(consumer):
                break
            if late is not None:
                await late.begin(consumer)
            most = consumer.config.max_poll_records
            rest = most if limit is None else min(limit - printed.count, most)
            records = await consumer.poll(poll_ms, max_records=rest)
            if not records and timeout_ms is not None:
                break
            if bounds is not None:
                records = bounds.within(records)
            await _write(consumer, line, records, output, printed)
            progress.advance(printed.count)


async def _write(
    consumer: Consumer,
    line: Callable[[ConsumerRecord], bytes],
    records: Sequence[ConsumerRecord],
    output: StandardOutput,
    printed: Printed,
) -> None:
    """Write the lines of `records`, and count the written records. If this fails or is cancelled,
    give the unwritten records back to the consumer, as resetUnconsumedOffsets of Kafka's
    ConsoleConsumer does before it closes its consumer."""
    lines: list[bytes] = []
    output.taken = 0
    whole = 0
    try:
        lines += map(line, records)
        await output.write(b"".join(lines))
        whole = len(records)
    finally:
        if whole < len(records):
            whole = _whole(lines, output.taken)
            # The count of uncommitted records includes records that were not printed.
            printed.uncommitted = None
            _give_back(consumer, records[whole:])
        printed.count += whole


def _whole(lines: Sequence[bytes], size: int) -> int:
    """Return the number of complete `lines` within the first `size` bytes of the output."""
    ends = accumulate(map(len, lines))
    return sum(1 for _ in takewhile(lambda end: end <= size, ends))


def _give_back(consumer: Consumer, records: Sequence[ConsumerRecord]) -> None:
    """Move the consumer back to the first of `records` in each partition. These records were not
    printed, so the consumer must not commit them. It commits nothing of a partition that it no
    longer has."""
    assigned = consumer.assignment()
    for record in reversed(records):
        if record.topic_partition in assigned:
            consumer.seek(record.topic_partition, record.offset)


def _json_line(record: ConsumerRecord) -> bytes:
    return json_text(json_record(record)).encode() + b"\n"
