"""The program `oncelog`: Ctrl-C ends it with a word and exit code 130 from its first line on, while
its modules are being imported, too."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line, and exit with its code."""
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
    sys.exit(code)  # type: ignore[arg-type]
