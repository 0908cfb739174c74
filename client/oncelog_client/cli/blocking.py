"""`oncelog transactions blocking`: the open transactions that readers of committed records wait
for, the groups that wait, and how to end each transaction safely."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Any, Final, NamedTuple

import click

from oncelog_client.admin import Admin
from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.group_lags import lags_in
from oncelog_client.cli.hanging import OpenTransaction, open_transactions, partitions_of
from oncelog_client.cli.layout import Cell, columns_of, wrapped
from oncelog_client.cli.names import NAME
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import (
    Column,
    for_people,
    partition_ranges,
    say,
    shortened,
    show,
    terminal_width,
)
from oncelog_client.cli.quantities import count_text, duration_text, size_text, time_text
from oncelog_client.cli.transaction_abort import abort_open
from oncelog_client.cli.two_phase import OPEN, include_two_phase_option
from oncelog_client.io.clock import wall_ms
from oncelog_client.values import TopicPartition

HANGING: Final = "Hanging"
NOT_VISIBLE: Final = "Not visible"
EMPTY: Final = "Empty"
_COMMAND: Final = "oncelog "
COLUMNS: Final = (
    Column("Topic", "id"),
    Column("Partition", "count"),
    Column("Start offset", "offset"),
    Column("Transactional id", "id"),
    Column("Producer id", "count"),
    Column("Producer epoch", "count"),
    Column("State"),
    Column("Client id", "id"),
    Column("Client address", "id"),
    Column("Principal", "id"),
    Column("Age ms", "duration"),
    Column("Held records", "count"),
    Column("Held bytes", "size"),
    Column("Time left ms", "duration"),
    Column("Two-phase"),
    Column("Waiting groups"),
)
ABORT_COLUMNS: Final = (Column("Aborted", "id"), Column("How"))


class WaitingGroup(NamedTuple):
    """A group that cannot read further in a partition, and its state. A group without members is
    listed too, because future members would wait."""

    group: str
    state: str


class Blocking(NamedTuple):
    """An open transaction in one partition, as of `now_ms`, with the partition's high watermark and
    the groups that wait for the transaction."""

    transaction: OpenTransaction
    high_watermark: int
    groups: tuple[WaitingGroup, ...]
    now_ms: int

    @property
    def began_ms(self) -> int:
        """Return the time at which the transaction began. If no coordinator knows the transaction,
        return the time of its last record. The transaction began at this time or earlier."""
        known = self.transaction.description
        if known is not None and known.transaction_start_time_ms is not None:
            return known.transaction_start_time_ms
        return self.transaction.producer.last_timestamp

    @property
    def age_ms(self) -> int:
        """Return the age of the transaction."""
        return max(self.now_ms - self.began_ms, 0)

    @property
    def held_records(self) -> int:
        """Return the number of records in the partition from the transaction's first record on. If
        the broker does not report this number, return the difference of the offsets."""
        held = self.transaction.producer.held_records
        offsets = max(self.high_watermark - self.transaction.start_offset, 0)
        return offsets if held is None else held


@click.command(
    cls=Tool,
    examples=[
        "transactions blocking",
        "transactions blocking orders",
        "transactions blocking orders --abort billing-7",
    ],
)
@connection_options
@output_option
@click.argument("topic", required=False, type=NAME)
@click.option(
    "--abort",
    "aborted",
    metavar="ID",
    help="Abort the open transaction of this transactional id or producer id. The"
    " coordinator aborts it in all partitions. A hanging transaction is aborted by markers.",
)
@click.option(
    "--producer-id", is_flag=True, help="The ID of --abort is a producer id, no transactional id."
)
@include_two_phase_option("With --abort: also")
def blocking(
    *,
    topic: str | None,
    aborted: str | None,
    producer_id: bool,
    include_two_phase: bool,
    output: str,
    **_: object,
) -> None:
    """Show the open transactions that readers of committed records wait for, in TOPIC or in all
    topics.

    A hanging transaction is unknown to its coordinator, which will never end it. A two-phase
    transaction has no timeout: only its application ends it.
    """
    if include_two_phase and aborted is None:
        raise click.UsageError("--include-two-phase needs --abort")
    if producer_id and aborted is None:
        raise click.UsageError("--producer-id needs --abort")
    if aborted is not None:
        how = ask(
            lambda admin: _abort(
                admin,
                topic,
                aborted,
                is_producer_id=producer_id,
                include_two_phase=include_two_phase,
            )
        )
        show(ABORT_COLUMNS, [(aborted, how)], output=output)
        return
    found, where = ask(lambda admin: _found_where(admin, topic))
    if for_people(output) and found:
        width = terminal_width() if output == "table" and sys.stdout.isatty() else sys.maxsize
        say("\n\n".join(_entry(same, topic, width) for same in _by_transaction(found)))
    else:
        show(COLUMNS, map(_row, found), output=output, empty=f"no open transaction {where}")


async def _places(admin: Admin, topic: str | None) -> list[TopicPartition]:
    topics = [topic] if topic else await admin.list_topics(list_internal=True)
    return await partitions_of(admin, topics)


async def _abort(
    admin: Admin, topic: str | None, name: str, *, is_producer_id: bool, include_two_phase: bool
) -> str:
    """Abort the open transactions of `name`. Return a text that says how. Raises Failed if there
    is none, and the errors of `abort_open`."""
    how = await abort_open(
        admin,
        await _places(admin, topic),
        name,
        is_producer_id=is_producer_id,
        include_two_phase=include_two_phase,
    )
    if not how:
        raise Failed(f"{name} has no open transaction in {topic or 'any topic'}")
    return how


async def _found_where(admin: Admin, topic: str | None) -> tuple[list[Blocking], str]:
    """Return the open transactions and the place of the search, for people. Without a topic, these
    are the topics that the client may describe."""
    places = await _places(admin, topic)
    found = await _found(admin, places)
    if topic is not None:
        return found, f"in {topic}"
    if not admin.config.has_tls and not admin.config.has_sasl:
        return found, "in any topic"
    from oncelog_client.core.own_principal import own_principal

    principal = own_principal(vars(admin.config))
    client = principal or "the principal of this client"
    if not places:
        return found, f"is visible: this needs DESCRIBE on TOPIC, which {client} has for no topic"
    number = len({place.topic for place in places})
    return found, f"in {count_text(number, 'topic')} that {client} may describe"


async def _found(admin: Admin, places: list[TopicPartition]) -> list[Blocking]:
    found = await open_transactions(admin, places)
    if not found:
        return []
    ends = await admin.list_offsets({transaction.place: "latest" for transaction in found})
    waiting = await _waiting_groups(admin, {transaction.place for transaction in found})
    now_ms = wall_ms()
    return [
        Blocking(
            transaction,
            ends[transaction.place].offset,
            tuple(waiting.get(transaction.place, ())),
            now_ms,
        )
        for transaction in found
    ]


async def _waiting_groups(
    admin: Admin, places: Iterable[TopicPartition]
) -> dict[TopicPartition, list[WaitingGroup]]:
    """Return the groups that wait in each partition. A group waits if it has no committed record
    left to read before the last stable offset, while open transactions hold further records back. A
    group with an offset above the last stable offset does not wait, because it reads uncommitted
    records."""
    waiting: dict[TopicPartition, list[WaitingGroup]] = {}
    for group, lags in await lags_in(admin, set(places)):
        for place, lag in lags.items():
            stable = lag.last_stable_offset
            has_read_all = lag.lag == 0 and stable is not None and lag.committed_offset <= stable
            if has_read_all and lag.held_back:
                waiting.setdefault(place, []).append(WaitingGroup(group.group_id, group.state))
    return {place: sorted(groups) for place, groups in waiting.items()}


def _row(found: Blocking) -> Sequence[Any]:
    transaction = found.transaction
    producer, known = transaction.producer, transaction.description
    return (
        *(*transaction.place, transaction.start_offset, known and known.transactional_id),
        *(producer.producer_id, producer.producer_epoch, _state_name(transaction)),
        *(known and known.client_id, known and known.client_address, known and known.principal),
        found.age_ms,
        *(found.held_records, producer.held_bytes, known and known.time_left_ms),
        *(known and known.is_two_phase, [waiting.group for waiting in found.groups]),
    )


def _state_name(transaction: OpenTransaction) -> str:
    if transaction.description is not None:
        return transaction.description.state
    return HANGING if transaction.is_hanging else NOT_VISIBLE


def _by_transaction(found: Iterable[Blocking]) -> list[list[Blocking]]:
    """Return the partitions of each transaction. The transaction that is open for the longest time
    is first. A producer's partitions with a hanging transaction are listed together. If a
    coordinator knows another transaction of the producer, these partitions are listed one by one,
    because `--abort` with the producer id would abort the known transaction too."""
    found = list(found)
    known_producers = {
        entry.transaction.producer.producer_id for entry in found if entry.transaction.description
    }
    entries: dict[object, list[Blocking]] = {}
    for entry in found:
        known = entry.transaction.description
        producer_id = entry.transaction.producer.producer_id
        key: object = known.transactional_id if known else producer_id
        if known is None and producer_id in known_producers:
            key = entry.transaction.place, entry.began_ms
        entries.setdefault(key, []).append(entry)
    return sorted(entries.values(), key=lambda same: min(entry.began_ms for entry in same))


def _entry(same: list[Blocking], topic: str | None, width: int) -> str:
    """Return the description of a transaction for people: the age and client of the transaction,
    the records that it holds back, and the command that ends it."""
    last = max(same, key=lambda entry: entry.began_ms)
    producer = last.transaction.producer
    known = last.transaction.description
    name = known.transactional_id if known else f"producer {producer.producer_id}"
    epochs = sorted({entry.transaction.producer.producer_epoch for entry in same})
    word = "epoch" if len(epochs) == 1 else "epochs"
    identity = f"producer {producer.producer_id} {word} {', '.join(map(str, epochs))}"
    client = ""
    if known is not None:
        principal = f"{known.principal}, client " if known.principal else ""
        client = f"{principal}{known.client_id or '-'} at {known.client_address or '-'}, "
    began_ms = min(entry.began_ms for entry in same)
    opened = f"{shortened(client)}{identity}, {time_text(began_ms, last.now_ms)}"
    heading = f"{shortened(name)}   {_state(last)}"
    lines = [
        *([heading] if columns_of(heading) <= width else [shortened(name), f"  {_state(last)}"]),
        *_labelled("opened by", [opened], width),
        *_labelled("holds back", _held(same), width),
        *_labelled("waiting", _groups(same), width),
        *_labelled("end it", _ending(same, topic), width),
    ]
    return "\n".join(lines)


def _labelled(label: str, texts: Sequence[str], width: int) -> list[str]:
    """Return lines of at most `width` columns. Longer text is wrapped at words. A longer command
    has a line of its own, so that a user can copy the command."""
    lines = []
    for number, text in enumerate(texts):
        start = f"  {label if not number else '':<10}  "
        if columns_of(text) <= width - len(start):
            lines.append(start + text)
        elif text.startswith(_COMMAND):
            lines += [start.rstrip()] * (not number) + [f"  {text}"]
        else:
            first, *others = wrapped(Cell(tuple(text.split(" "))), width - len(start))
            lines += [start + first, *(" " * len(start) + other for other in others)]
    return lines


def _state(found: Blocking) -> str:
    known = found.transaction.description
    age = duration_text(found.age_ms)
    if found.transaction.may_be_hidden:
        return f"Open, last record {age} ago; this user does not see its transactional id"
    if known is None:
        return f"{HANGING}, last record {age} ago; its coordinator does not know it"
    if known.state != OPEN:
        return f"{known.state} since {age}, its markers are being written"
    if known.is_two_phase:
        return f"{known.state} {age}, two-phase: its application decides, no timeout"
    if known.time_left_ms is None:
        return f"{known.state} {age}"
    left = duration_text(max(known.time_left_ms, 0))
    return f"{known.state} {age}, aborted by its timeout in {left}"


def _held(same: list[Blocking]) -> list[str]:
    """Return a line for each topic: partitions, records and bytes."""
    topics: dict[str, list[Blocking]] = {}
    for entry in same:
        topics.setdefault(entry.transaction.place.topic, []).append(entry)
    lines = []
    for topic, parts in topics.items():
        records = sum(part.held_records for part in parts)
        sizes = [part.transaction.producer.held_bytes for part in parts]
        size = f", {size_text(sum(filter(None, sizes)))}" if None not in sizes else ""
        (ranges,) = partition_ranges(str(part.transaction.place) for part in parts)
        numbers = ranges.removeprefix(f"{topic}:")
        some = f"{len(parts)} partitions ({numbers})" if len(parts) > 1 else f"partition {numbers}"
        held = f"{count_text(records, 'record')}{size}"
        lines.append(f"{shortened(topic)}: {some}, {held}")
    return lines


def _groups(same: list[Blocking]) -> list[str]:
    counts: dict[WaitingGroup, int] = {}
    for entry in same:
        for group in entry.groups:
            counts[group] = counts.get(group, 0) + 1
    if not counts:
        return ["no group has read up to here"]
    return [
        f"{shortened(waiting.group)} ({count_text(count, 'partition')}"
        f"{f', {EMPTY}' if waiting.state == EMPTY else ''})"
        for waiting, count in sorted(counts.items())
    ]


def _ending(same: list[Blocking], topic: str | None) -> list[str]:
    """Return the command that ends the transaction safely, with a remark. If the decision is not
    the operator's, return the command that shows the transaction."""
    found = same[0]
    known, place = found.transaction.description, found.transaction.place
    if found.transaction.may_be_hidden:
        return ["as a user with DESCRIBE on its TRANSACTIONAL_ID: oncelog txn blocking"]
    if known is None and len(same) > 1:
        where = f"{quote(topic)} " if topic else ""
        return [
            f"oncelog txn blocking {where}--abort {found.transaction.producer.producer_id}"
            " --producer-id",
            f"(all of it, by a marker in each of the {len(same)} partitions)",
        ]
    if known is None:
        at = f"--partition {place.partition} --start-offset {found.transaction.start_offset}"
        return [
            f"oncelog transactions abort --topic {quote(place.topic)} {at}",
            "(by a marker in this partition; refused while a coordinator knows it)",
        ]
    name = quote(known.transactional_id)
    if known.state != OPEN:
        return ["its coordinator is ending it", f"oncelog transactions describe {name}"]
    if known.is_two_phase:
        return ["ask its application: oncelog transactions prepared"]
    return [
        f"{_COMMAND}txn abort {name}",
        "(by its coordinator, in all partitions)",
    ]
