"""The output of the commands for data directories and for the metadata in etcd: the sections of a
plan, and an error."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final, NoReturn

import click

from oncelog_server.cluster import records

# Maximum number of lines of a section that are shown without --verbose.
SHOWN: Final = 20


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def size_of(keys: Iterable[str]) -> str:
    """Return the numbers of topics and partitions with a record in the metadata."""
    names = list(keys)
    topics = sum(key.startswith(records.TOPICS) for key in names)
    partitions = sum(key.startswith(records.PARTITIONS) for key in names)
    return f"{count(topics, 'topic')} with {count(partitions, 'partition')}"


def show_lines(title: str, lines: list[str], verbose: bool) -> None:
    if not lines:
        return
    shown = lines if verbose else lines[:SHOWN]
    click.echo(f"{title}:")
    for line in shown:
        click.echo(f"  {line}")
    if len(lines) > len(shown):
        click.echo(f"  and {len(lines) - len(shown)} more (--verbose shows them)")


def show_unchanged(command: str | None = None) -> None:
    """Print how the shown plan is carried out."""
    how = ", add --yes" if command is None else f": {command} --yes"
    click.echo(f"\nNothing was changed. To make these changes{how}")


def fail(message: str) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(1)
