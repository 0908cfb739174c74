"""`oncelog logs`: print the files of a log, and check them.

The commands change nothing. A broker may be using the files.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_server.inspection.batches import RawBatch, RawBatches
from oncelog_server.inspection.data_directory import NothingThere, PartitionFolder, look, verify
from oncelog_server.inspection.dump import DEFAULT_MAX_BATCH_BYTES, DumpOptions, dump_log
from oncelog_server.inspection.findings import CheckTotals, Finding
from oncelog_server.inspection.outcomes import Outcomes
from oncelog_server.inspection.record_json import (
    OFFSETS_TOPIC,
    TRANSACTION_TOPIC,
    Decoder,
    decode_text,
    offsets_decoder,
    transactions_decoder,
)
from oncelog_server.inspection.side_files import (
    IndexDump,
    MalformedFile,
    snapshot_lines,
    txn_index_lines,
)
from oncelog_server.offline.read_only_files import ReadOnlyFiles, is_in_use
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_partition_directory,
    parse_segment_file,
    segment_file,
)

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

DUMP_EXAMPLES: Final = """\b
Examples:
  oncelog logs dump oncelog-data/orders-0
  oncelog logs dump --print-data-log oncelog-data/orders-0/00000000000000000000.log
  oncelog logs dump --side-files oncelog-data/orders-0
  oncelog logs dump oncelog-data/__transaction_state-3
"""
VERIFY_EXAMPLES: Final = """\b
Examples:
  oncelog logs verify oncelog-data
  oncelog logs verify oncelog-data/orders-0
  oncelog logs verify --json /backup/oncelog-data
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def logs() -> None:
    """Print or check the files of a log. Nothing is changed."""


@logs.command(epilog=DUMP_EXAMPLES, short_help="Print the batches and records of log files.")
@click.argument("paths", nargs=-1, metavar="[FILE|DIR]...")
@click.option("--files", "file_list", metavar="FILE,FILE", help="Print exactly like Kafka's tool.")
@click.option("--deep-iteration", is_flag=True, help="Print each record, not only each batch.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values too.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode as __transaction_state.")
@click.option("--offsets-decoder", is_flag=True, help="Decode as __consumer_offsets.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and values.")
@click.option(
    "--max-bytes", type=click.IntRange(min=0), help="Read only this many bytes of each .log file."
)
@click.option(
    "--max-batch-bytes",
    type=click.IntRange(min=1),
    default=DEFAULT_MAX_BATCH_BYTES,
    show_default=True,
    help="Do not print the records of a batch that takes more bytes than this when decompressed.",
)
@click.option("--side-files", is_flag=True, help="With DIR: indexes and snapshots as well.")
@click.option("--verify-index-only", is_flag=True, help="Compare indexes without printing them.")
@click.option("--index-sanity-check", is_flag=True, help="Check indexes as Kafka does at a start.")
def dump(paths: tuple[str, ...], file_list: str | None, **flags: Any) -> None:
    """Print the batches of segments, of a partition's folder or of a data directory.

    Each batch is one line, as Kafka's dump tool prints it. The line of a transaction's batch ends
    with COMMITTED, ABORTED or OPEN. Records of __transaction_state and __consumer_offsets are
    decoded.
    """
    if (not paths) == (file_list is None):
        raise click.UsageError("give either a FILE or DIR, or --files")
    dumper = Dumper(flags, as_kafka=file_list is not None)
    with _reported():
        for path in file_list.split(",") if file_list is not None else paths:
            dumper.dump(path)
    dumper.finish()


@logs.command("verify", epilog=VERIFY_EXAMPLES, short_help="Check the files of logs for damage.")
@click.argument("directory", metavar="DIR")
@click.option("--json", "output", flag_value="json", help="The same as --output json.")
@click.option(
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    help="json: one object a line, for scripts.  [default: table]",
)
def verify_(directory: str, *, output: str) -> None:
    """Check a data directory, or the folder of one partition.

    With `serve --brokers`, the folders of all brokers are checked.

    Looks for gaps between segments, empty and orphaned files, wrong CRCs and offsets, and valid
    batches after damaged bytes. Compares indexes, aborted transactions, producer snapshots and
    leader epochs with the log. The exit code is 0 if there is no problem, else 1. Advice is printed
    below the first finding of each kind; in JSON, each finding has its advice.
    """
    files, totals = ReadOnlyFiles(), CheckTotals()
    as_json, advised = output == "json", set[str]()
    with _reported():
        places = look(files, _named(directory))
        used = {place.root for place in places if place.root is not None and is_in_use(place.root)}
        for place in places:
            running = place.root in used
            for finding in verify(files, place, running=running, totals=totals):
                totals.count(finding)
                if as_json:
                    click.echo(_finding_json(finding))
                    continue
                click.echo(_finding_text(finding))
                if finding.to_do not in advised:
                    click.echo(f"    {finding.to_do}")
                advised.add(finding.to_do)
    if as_json:
        click.echo(_json({"checked": vars(totals), "running": bool(used)}))
    else:
        where = " (a broker is running on it)" if used else ""
        click.echo(
            f"{totals.partitions:,} partitions, {totals.segments:,} segments, {totals.batches:,}"
            f" batches, {totals.bytes:,} bytes checked{where}:"
            f" {_count(totals.problems, 'problem')}, {_count(totals.notes, 'note')}"
        )
    sys.exit(1 if totals.problems else 0)


class Dumper:
    """Prints files. With `as_kafka` it prints exactly the lines of Kafka's DumpLogSegments."""

    def __init__(self, flags: dict[str, Any], *, as_kafka: bool) -> None:
        self._as_kafka = as_kafka
        self._files = ReadOnlyFiles()
        self._flags = flags
        decoded = flags["transaction_log_decoder"] or flags["offsets_decoder"]
        self._contents = flags["print_data_log"] or decoded
        self._index = IndexDump(
            verify_only=flags["verify_index_only"], sanity_only=flags["index_sanity_check"]
        )
        # A directory, the first segment that was read for its outcomes, and the outcomes.
        self._outcomes: tuple[str, int, Outcomes] = "", 0, Outcomes()
        self._failed = False

    def dump(self, path: str) -> None:
        """Print a file, the folder of a partition or a data directory.

        Raises NothingThere if there is no log, StorageError if a file cannot be read.
        """
        if not self._as_kafka and not os.path.exists(path):
            raise NothingThere(f"{path}: no such file or folder")
        if self._as_kafka or not os.path.isdir(path):
            self._file(path)
            return
        folders = [
            folder for place in look(self._files, _named(path)) for folder in place.partitions
        ]
        empty = sum(self._folder(folder, skips_empty=len(folders) > 1) for folder in folders)
        if empty:
            click.echo(f"Not shown: {_count(empty, 'segment')} without records")

    def finish(self) -> None:
        """Print the mismatches of indexes, as Kafka's tool does. Exit with 1 if a part of a file
        could not be decoded."""
        heading = ""
        for complaint in sorted(self._index.complaints, key=lambda complaint: complaint.heading):
            if complaint.heading != heading:
                click.echo(complaint.heading, err=True)
            heading = complaint.heading
            click.echo(complaint.line, err=True)
        if self._failed:
            sys.exit(1)

    def _folder(self, folder: PartitionFolder, *, skips_empty: bool) -> int:
        """Print the files of a partition. Return the number of empty logs that were left out."""
        empty = 0
        for name in self._files.list(folder.path):
            parsed = parse_segment_file(name)
            if parsed is None or parsed.state:
                continue
            path = f"{folder.path}/{name}"
            if parsed.suffix == LOG_SUFFIX and skips_empty and not os.path.getsize(path):
                empty += 1
            elif parsed.suffix == LOG_SUFFIX or self._flags["side_files"]:
                self._file(path)
        return empty

    def _file(self, path: str) -> None:
        click.echo(f"Dumping {path}")
        directory, _, name = path.rpartition("/")
        parsed = parse_segment_file(name)
        if parsed is None:
            click.echo(f"Ignoring unknown file {path}", err=True)
            return
        for line in self._lines(path, directory or ".", parsed.offset, parsed.suffix):
            click.echo(line)

    def _lines(self, path: str, directory: str, offset: int, suffix: str) -> Iterator[str]:
        if suffix == LOG_SUFFIX:
            yield from dump_log(self._files.open(path), offset, self._options(directory, offset))
            return
        file = self._files.open(path)
        data = file.read(0, file.size)
        file.close()
        try:
            if suffix == TXN_INDEX_SUFFIX:
                yield from txn_index_lines(data)
            elif suffix == SNAPSHOT_SUFFIX:
                yield from snapshot_lines(data)
            else:
                yield from self._index_lines(path, data, directory, offset, suffix)
        except (MalformedFile, ProtocolError, UnknownRecordVersion) as error:
            self._failed = True
            click.echo(f"{path}: {error}", err=True)

    def _index_lines(
        self, path: str, data: bytes, directory: str, offset: int, suffix: str
    ) -> Iterator[str]:
        log = self._files.open(f"{directory}/{segment_file(offset, LOG_SUFFIX)}")
        if suffix == OFFSET_INDEX_SUFFIX:
            yield from self._index.offset_index(path, data, offset, log)
            return
        offset_index = self._files.open(f"{directory}/{segment_file(offset, OFFSET_INDEX_SUFFIX)}")
        offsets = offset_index.read(0, offset_index.size)
        offset_index.close()
        yield from self._index.time_index(path, data, offset, log, offsets)

    def _options(self, directory: str, offset: int) -> DumpOptions:
        decoder = self._decoder(directory)
        contents = self._contents or (not self._as_kafka and decoder is not decode_text)
        return DumpOptions(
            deep=self._flags["deep_iteration"] or contents,
            contents=contents,
            skip_record_metadata=self._flags["skip_record_metadata"],
            max_bytes=self._flags["max_bytes"],
            max_batch_bytes=self._flags["max_batch_bytes"],
            unread=self._unread,
            decoder=decoder,
            outcomes=None if self._as_kafka else self._outcomes_from(directory, offset),
            escape=str if self._as_kafka else escaped,
        )

    def _unread(self, line: str) -> None:
        self._failed = True
        click.echo(escaped(line), err=True)

    def _decoder(self, directory: str) -> Decoder:
        own = not self._as_kafka
        if self._flags["offsets_decoder"]:
            return offsets_decoder
        if self._flags["transaction_log_decoder"]:
            return transactions_decoder(with_own=own)
        name = parse_partition_directory(os.path.basename(os.path.abspath(directory)))
        if own and name is not None and name.topic == TRANSACTION_TOPIC:
            return transactions_decoder(with_own=True)
        if own and name is not None and name.topic == OFFSETS_TOPIC:
            return offsets_decoder
        return decode_text

    def _outcomes_from(self, directory: str, offset: int) -> Outcomes:
        """Return the outcomes of transactions, from the markers in this segment and in later ones.
        A marker may be in a later segment than the transaction's batches.
        """
        known, first, outcomes = self._outcomes
        if known != directory or offset < first:
            outcomes = Outcomes.of(self._batches_from(directory, offset))
            self._outcomes = directory, offset, outcomes
        return outcomes

    def _batches_from(self, directory: str, offset: int) -> Iterator[RawBatch]:
        for name in self._files.list(directory):
            parsed = parse_segment_file(name)
            if parsed is None or parsed.state or parsed.suffix != LOG_SUFFIX:
                continue
            if parsed.offset >= offset:
                log = self._files.open(f"{directory}/{name}")
                yield from RawBatches(log)
                log.close()


def _named(directory: str) -> str:
    """Return a path that ends with the name of the directory, because the name says which partition
    the directory has."""
    is_named = os.path.basename(directory.rstrip("/")) not in ("", ".", "..")
    return directory if is_named else os.path.abspath(directory)


@contextmanager
def _reported() -> Iterator[None]:
    """Turn errors of a folder into one line and exit code 1."""
    try:
        yield
    except (StorageError, NothingThere) as error:
        raise click.ClickException(str(error)) from error


def escaped(text: str) -> str:
    r"""Return the text with control characters escaped, so that a terminal does not obey them."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _finding_text(finding: Finding) -> str:
    place = finding.path
    if finding.position is not None:
        place += f", byte {finding.position}"
    if finding.offset is not None:
        place += f", offset {finding.offset}"
    return escaped(f"{finding.severity}: {place}: {finding.what}")


def _finding_json(finding: Finding) -> str:
    return _json(finding._asdict())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
