"""The output of the commands of `oncelog storage`: the sections of a plan, and an error."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

import click

# Maximum number of lines of a section that are shown without --verbose.
SHOWN: Final = 20


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def show_lines(title: str, lines: list[str], verbose: bool) -> None:
    if not lines:
        return
    shown = lines if verbose else lines[:SHOWN]
    click.echo(f"{title}:")
    for line in shown:
        click.echo(f"  {line}")
    if len(lines) > len(shown):
        click.echo(f"  and {len(lines) - len(shown)} more (--verbose shows them)")


def fail(message: str) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(1)
