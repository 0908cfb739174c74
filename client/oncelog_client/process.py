"""The process of a command line. From its first line on, also during imports, Ctrl-C ends the
process with a message and exit code 130.

A short command creates too little garbage to collect. So the garbage collector is off until the
command is imported (`collect_from_now` in `cli`), and all objects are frozen before the
interpreter's collections at exit.
"""

from __future__ import annotations

import gc
import os
import select
import sys

# `oncelog health` needs no `typing`, and its import would take a tenth of the time of a check. The
# enumerations of `signal` would take a fifth.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import NoReturn
else:
    import _signal as signal

INTERRUPTED = 130


def run(command_line: Callable[[], None]) -> None:
    """Run a command line, which imports what it needs, and exit with its code."""
    # A program that a shell script started in the background ignores SIGINT. As in Python itself,
    # SIGINT then stays ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_at_once)
    gc.disable()
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_standard_streams()
    try:
        command_line()
    except KeyboardInterrupt:
        end_at_once()
    except SystemExit as left:
        # The exit code is known: Ctrl-C must not end the interpreter with a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if left.code == INTERRUPTED:
            # A normal exit would flush standard output, and might wait for a slow reader.
            os._exit(INTERRUPTED)
        # At exit the interpreter collects garbage, which takes a sixth of the time of a short
        # command. Frozen objects are left out.
        gc.freeze()
        raise


def unwind_when_interrupted() -> None:
    """Make Ctrl-C raise KeyboardInterrupt from now on, for a command that has to restore something.
    The call has no effect if another program runs the command line, without `run`."""
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end_at_once(number: int = signal.SIGINT, _: object = None) -> NoReturn:
    """End the process at once, as the handler of signal `number`. The handler raises no exception:
    in a finalizer or in the callback of an import, an exception would be printed and ignored."""
    last_words("interrupted")
    os._exit(128 + number)


def last_words(text: str) -> None:
    """Print a line on standard error, unless the write would block."""
    try:
        _, ready, _ = select.select([], [2], [], 0)
        if ready:
            shown_before = "\n" if os.isatty(2) else ""  # the terminal has shown ^C
            os.write(2, f"{shown_before}{text}\n".encode(errors="replace"))
    except (OSError, ValueError):
        pass  # standard error is closed: only the exit code is left


def _open_standard_streams() -> None:
    """Open replacements for standard streams that were closed before the start, so that no file
    that is opened later gets their numbers (0 to 2). Reads from standard input and writes to
    standard output then fail. Writes to standard error are discarded."""
    for number, name, mode, flags in (
        (0, "stdin", "r", os.O_WRONLY),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - kept
            setattr(sys, name, stream)
