"""`produce -k -H -p --tombstone`: what every record of a call has in common, and where it went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import click

from oncelog_client.cli.output import note, say
from oncelog_client.cli.record_lines import LineReader
from oncelog_client.values import Header, RecordMetadata


class Reader(Protocol):
    """Makes a record of a line."""

    def read(self, line: bytes) -> tuple[bytes | None, bytes | None, list[Header]]:
        """Return key, value and headers; raises ValueError for a line that lacks a part."""
        ...


class FixedParts:
    """Reads lines as records, with `key` in place of the line's own unless it is None, and with
    `headers` after those of the line. With `tombstone` a record has no value."""

    def __init__(
        self,
        lines: LineReader,
        key: str | None,
        headers: Sequence[str],
        *,
        tombstone: bool,
    ) -> None:
        """Raises click.UsageError for flags that contradict each other."""
        if key is not None and lines.parse_key:
            raise click.UsageError("-k excludes parse.key: each line has its own key then")
        if tombstone and key is None:
            raise click.UsageError("--tombstone needs -k KEY: it deletes the value of a key")
        self._lines = lines
        self._key = None if key is None else _encoded("-k", key)
        self._headers = [parse_header(text) for text in headers]
        self._tombstone = tombstone

    def read(self, line: bytes) -> tuple[bytes | None, bytes | None, list[Header]]:
        """Return key, value and headers; raises ValueError for a line that lacks a part."""
        key, value, headers = self._lines.read(line)
        if self._key is not None:
            key = self._key
        return key, None if self._tombstone else value, [*headers, *self._headers]


def parse_header(text: str) -> Header:
    """Return `name=value` as a header; raises click.UsageError for anything else."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"-H {text[:80]!r} is not NAME=VALUE")
    _encoded("-H", name)
    return name, _encoded("-H", value)


def _encoded(flag: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"{flag} {text[:40]!r} is not text in UTF-8") from None


def report_to(output: str, *, wanted: bool) -> Callable[[RecordMetadata], None] | None:
    """Return what prints `partition 0 offset 0` of each record; None if it is not `wanted`. JSON is
    the only thing on standard output where it is asked for."""
    if not wanted:
        return None
    out = note if output == "json" else say

    def report(written: RecordMetadata) -> None:
        out(f"partition {written.partition} offset {written.offset}")

    return report


def one_topic(argument: str | None, option: str | None) -> str | None:
    """Return the topic that was given as an argument or as --topic; raises click.UsageError for
    both."""
    if argument is not None and option is not None:
        raise click.UsageError("TOPIC and --topic are the same: give one of them")
    return argument if argument is not None else option
