"""The end of a command: its exit code, and the messages of exceptions.

0: done. 1: refused or failed. 2: wrong usage. 3: `acls explain` of a denied operation. 130:
interrupted. No exception shows a traceback unless `ONCELOG_TRACEBACK=1` is set or `oncelog --debug`
is called.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import click

from oncelog_client.cli.escaping import printable_lines

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
# `acls explain` of a denied operation. A script must not take a failure for a denial.
DENIED: Final = 3
INTERRUPTED: Final = 130

TRACEBACK_VARIABLE: Final = "ONCELOG_TRACEBACK"

# Failures of a write to standard output: a full device, a closed pipe or terminal, a quota.
_OUTPUT_ERRORS: Final = frozenset(
    {errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT}
)


class Failed(click.ClickException):
    """The command could not do its work. The exit code is 1."""

    exit_code = FAILED


class Missing(Failed):
    """The topic, group or transactional id of the command does not exist. `near`, a suggestion with
    the nearest existing name, is appended to the message."""

    near: str = ""

    def format_message(self) -> str:
        """Return the printed text."""
        return self.message + self.near


class Interrupted(Exception):
    """The user has ended the command. `message` describes the finished work. Nothing is printed if
    `message` is empty."""

    def __init__(self, message: str = "interrupted") -> None:
        self.message = message
        super().__init__(message)


class OutputClosed(Exception):
    """The reader of standard output has ended. Standard output was a pipe."""


def exit_code_of(call: Callable[[], object]) -> int:
    """Run a command and return its exit code. The cause of a failure is printed on standard
    error."""
    try:
        returned = call()
        # Without this flush, the interpreter would flush at its end, and print a traceback if that
        # failed.
        sys.stdout.flush()
    except SystemExit as left:
        return _left(left.code)
    except BaseException as error:
        return _reported(error)
    return returned if isinstance(returned, int) and not isinstance(returned, bool) else DONE


def _left(code: object) -> int:
    """Return the exit code of sys.exit(code). If `code` is a text, print the text as an error."""
    if code is None or isinstance(code, int):
        return code or DONE
    return _say(f"Error: {code}", FAILED)


def _reported(error: BaseException) -> int:
    """Print an exception as a message and return the exit code for it."""
    if _tracebacks_wanted():
        import traceback

        traceback.print_exception(error)
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return _say("interrupted", INTERRUPTED)
    if isinstance(error, Interrupted):
        return _say(error.message, INTERRUPTED) if error.message else INTERRUPTED
    if isinstance(error, click.ClickException):
        return _show(error)
    if _is_of_client(error):
        return _of_client(error)
    if isinstance(error, OutputClosed | BrokenPipeError):
        return _output_failed("")  # `| head`: the reader has read enough
    if isinstance(error, OSError) and error.filename is None and error.errno in _OUTPUT_ERRORS:
        return _output_failed(error.strerror or str(error))
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename is not None else ""
        return _say(f"Error: {place}{error.strerror or error}", FAILED)
    return _say(f"Error: {_message(error)}", FAILED)


def _is_of_client(error: BaseException) -> bool:
    # If the client's errors are not imported, as in `serve`, no such error was raised.
    errors = sys.modules.get("oncelog_client.errors")
    return errors is not None and isinstance(error, errors.KafkaError)


def _of_client(error: BaseException) -> int:
    from oncelog_client.errors import ConfigError

    if isinstance(error, ConfigError):
        from oncelog_client.cli.options import dotted

        return _say(f"Error: {dotted(error.message)}", WRONG_USAGE)
    return _say("\n".join((f"Error: {error}", *getattr(error, "__notes__", ()))), FAILED)


def _message(error: BaseException) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} of the input is not UTF-8 ({error.reason})"
    if isinstance(error, UnicodeEncodeError):
        character = printable_lines(error.object[error.start : error.start + 1])
        return f"{character} cannot be written in {error.encoding}"
    return (
        f"unexpected failure: {type(error).__name__}: {error}\n"
        f"This is a defect of oncelog; {TRACEBACK_VARIABLE}=1 shows where it happened."
    )


def _tracebacks_wanted() -> bool:
    return os.environ.get(TRACEBACK_VARIABLE, "") not in {"", "0"}


def _show(error: click.ClickException) -> int:
    """Print the error as click does, with the usage line, but without control characters."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        context = error.ctx
        if error.message == context.get_help():
            return _say(error.message, error.exit_code)  # a group was called without a verb
        help_option = context.help_option_names[0] if context.help_option_names else "--help"
        _say(f"{context.get_usage()}\nTry '{context.command_path} {help_option}'.\n")
    # click lists the values of a missing argument on one line each, after tabs.
    message = error.format_message().replace("\n\t", " ")
    return _say(f"Error: {message}", error.exit_code)


def _output_failed(reason: str) -> int:
    """Print the error, unless `reason` is empty, and return the exit code. Standard output is
    replaced by /dev/null, because the interpreter's flush at its end would fail too."""
    with suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
    return _say(f"Error: cannot write to standard output: {reason}", FAILED) if reason else FAILED


def _say(text: str, code: int = DONE) -> int:
    # If standard error is closed too, only the exit code remains.
    with suppress(OSError, ValueError):
        click.echo(printable_lines(text), err=True)
    return code
