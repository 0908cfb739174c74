"""The process of a command line. Ctrl-C ends it with a word and exit code 130 from its first line
on, while its modules are being imported, too.

A short command makes no garbage worth a search. The collector is off until the command is imported
(`collect_from_now` in `cli`), and the interpreter's last collections find an empty heap.
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
    # As Python does: a program that is started in the background leaves SIGINT ignored.
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
            # The interpreter would flush standard output, and wait for a reader that does not read.
            os._exit(INTERRUPTED)
        # The interpreter looks for garbage at its end, which takes a sixth of a short command.
        gc.freeze()
        raise


def unwind_when_interrupted() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on, for a command that has to put something back;
    nothing changes for a command line in another program."""
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end_at_once(number: int = signal.SIGINT, _: object = None) -> NoReturn:
    """End the process where it is, as a handler of `number`. No exception is raised: where none can
    pass, in a finalizer or in the callback of an import, it would be printed and forgotten."""
    last_words("interrupted")
    os._exit(128 + number)


def last_words(text: str) -> None:
    """Print a line on standard error unless that would wait for its reader."""
    try:
        _, ready, _ = select.select([], [2], [], 0)
        if ready:
            shown_before = "\n" if os.isatty(2) else ""  # ^C, by the terminal
            os.write(2, f"{shown_before}{text}\n".encode(errors="replace"))
    except (OSError, ValueError):
        pass  # It is closed: the exit code is all that is left.


def _open_standard_streams() -> None:
    """Put something in the place of standard streams that were closed before the start, so that no
    other file gets their numbers: input and output that fail, an error output that takes all."""
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
