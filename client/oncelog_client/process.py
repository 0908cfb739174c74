"""The process of a command line. From its first line on, also during imports, Ctrl-C ends the
process with a message and exit code 130.

A short command creates too little garbage to collect. The collector is off until the command is
imported (`collect_from_now` in `cli`). The last collections of the interpreter find an empty heap.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130


def run(command_line: Callable[[], None]) -> None:
    """Run a command line, which imports what it needs, and exit with its code."""
    # As in Python itself: a program that was started in the background ignores SIGINT.
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
            # The interpreter would flush standard output, and might wait for a slow reader.
            os._exit(INTERRUPTED)
        # At exit the interpreter collects garbage, which takes a sixth of a short command.
        gc.freeze()
        raise


def unwind_when_interrupted() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, for a command that has to restore something. The
    call has no effect if another program runs the command line."""
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
            shown_before = "\n" if os.isatty(2) else ""  # ^C, by the terminal
            os.write(2, f"{shown_before}{text}\n".encode(errors="replace"))
    except (OSError, ValueError):
        pass  # standard error is closed: only the exit code is left


def _open_standard_streams() -> None:
    """Open replacements for standard streams that were closed before the start, so that no other
    file gets their numbers. Standard input and output then fail. Standard error accepts
    everything."""
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
