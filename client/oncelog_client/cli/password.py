"""The password for a command: from a prompt, a file or standard input, rather than from the command
line, which every process of the computer can read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from oncelog_client.cli.failures import Failed
from oncelog_client.cli.output import note
from oncelog_protocol.secret import Secret

F = TypeVar("F", bound=Callable[..., Any])

# A file that is named by mistake may be large.
MOST_BYTES: Final = 65_536


def password_options(command: F) -> F:
    """Add `--password-file` and `--password`."""
    for option in (
        click.option("--password", metavar="TEXT", help="The password. Other users may see it."),
        click.option(
            "--password-file", type=click.Path(), metavar="FILE", help="File of the password."
        ),
    ):
        command = option(command)
    return command


def read_password(password: str | None, password_file: str | None) -> Secret:
    """Return the password of these options. Without options, ask for the password at a terminal, or
    read it from standard input. Raises click.UsageError and Failed."""
    if password is not None and password_file is not None:
        raise click.UsageError("--password excludes --password-file")
    if password is not None:
        note(
            "warning: --password shows the password to other users of this computer: use a prompt, "
            "--password-file or standard input"
        )
        text = password
    elif password_file is not None:
        text = _read(password_file)
    elif sys.stdin is not None and sys.stdin.isatty():
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = _decoded(_standard_input(), "standard input")
    if not text:
        raise click.UsageError("the password is empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise click.UsageError("the password is not text in UTF-8") from None
    return Secret(text)


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            is_open_to_others = bool(os.fstat(file.fileno()).st_mode & 0o077)
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Failed(f"cannot read {path}: {reason}") from error
    if is_open_to_others:
        note(f"warning: other users may read {path}: chmod 600 {path}")
    return _decoded(data, str(path))


def _standard_input() -> bytes:
    try:
        return b"" if sys.stdin is None else sys.stdin.buffer.read(MOST_BYTES + 1)
    except OSError as error:
        raise Failed(f"cannot read standard input: {error.strerror}") from error


def _decoded(data: bytes, source: str) -> str:
    """Return the text without the end of its line. Raises Failed for a text of several lines: a
    login would take the first line, or all."""
    if len(data) > MOST_BYTES:
        raise Failed(f"{source} has more than {MOST_BYTES:,} bytes: it is no password")
    try:
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Failed(f"{source} is not text in UTF-8") from None
    if "\n" in text or "\r" in text:
        raise Failed(
            f"{source} has more than one line: a password is one line. Nothing was changed"
        )
    return text
