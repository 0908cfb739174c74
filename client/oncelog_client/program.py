"""The program `oncelog`: Ctrl-C ends it with a word and exit code 130 from its first line on, while
its modules are being imported, too.

A short command makes no garbage worth a search. The collector is off until the command is imported
(`collect_from_now` in `cli`), and the interpreter's last collections find an empty heap.
"""

from __future__ import annotations

import gc
import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line, and exit with its code."""
    gc.disable()
    try:
        from oncelog_client.cli import main as run

        run()
    except KeyboardInterrupt:
        _leave(INTERRUPTED, "interrupted")
    except SystemExit as left:
        _leave(left.code)


def _leave(code: object, message: str = "") -> None:
    # The exit code is known: a second Ctrl-C must not end the interpreter with a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if message:
        sys.stderr.write(f"{message}\n")
    # The interpreter looks for garbage at its end, which takes a sixth of a short command.
    gc.freeze()
    sys.exit(code)  # type: ignore[arg-type]
