"""The flags -k, -H, --tombstone and -v of `produce`. The first three set the parts that all records
of a call share. With -v, the partition and offset of each record is printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import click

from oncelog_client.cli.output import note, say
from oncelog_client.cli.record_lines import LineReader
from oncelog_client.values import Header, RecordMetadata


class Reader(Protocol):
    """Makes a record from a line."""

    def read(self, line: bytes) -> tuple[bytes | None, bytes | None, list[Header]]:
        """Return key, value and headers. Raises ValueError for a line that lacks a part."""
        ...


class FixedParts:
    """Reads lines as records. `key`, unless None, replaces the line's key. `headers` follow the
    line's headers. With `tombstone`, records have no value."""

    def __init__(
        self,
        lines: LineReader,
        key: str | None,
        headers: Sequence[str],
        *,
        tombstone: bool,
    ) -> None:
        """Check the flags. Raises click.UsageError for flags that contradict each other."""
        if key is not None and lines.parse_key:
            raise click.UsageError("-k cannot be used with parse.key: each line already has a key")
        if tombstone and key is None:
            raise click.UsageError("--tombstone needs -k KEY: it deletes the value of a key")
        self._lines = lines
        self._key = None if key is None else _encoded("-k", key)
        self._headers = [parse_header(text) for text in headers]
        self._tombstone = tombstone

    def read(self, line: bytes) -> tuple[bytes | None, bytes | None, list[Header]]:
        """Return key, value and headers. Raises ValueError for a line that lacks a part."""
        key, value, headers = self._lines.read(line)
        if self._key is not None:
            key = self._key
        return key, None if self._tombstone else value, [*headers, *self._headers]


def parse_header(text: str) -> Header:
    """Return `name=value` as a header. Raises click.UsageError for any other text."""
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
    """Return the function that prints `partition 0 offset 0` for each record. Return None if
    `wanted` is false. If `output` is JSON, the function prints on standard error, so that standard
    output has only JSON."""
    if not wanted:
        return None
    out = note if output == "json" else say

    def report(written: RecordMetadata) -> None:
        out(f"partition {written.partition} offset {written.offset}")

    return report


def one_topic(argument: str | None, option: str | None) -> str | None:
    """Return the topic from the argument or from --topic. Raises click.UsageError for both."""
    if argument is not None and option is not None:
        raise click.UsageError("TOPIC and --topic are the same: give one of them")
    return argument if argument is not None else option
