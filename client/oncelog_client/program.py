"""The program `oncelog`: the command line in its own process."""

from __future__ import annotations

import sys

from oncelog_client.process import run


def main() -> None:
    """Run the command line, and exit with its code."""
    run(_command_line)


def _command_line() -> None:
    if sys.argv[1:2] == ["health"]:
        _check_health(sys.argv[2:])
    # Imported here, because `run` has set the handler of Ctrl-C by now.
    from oncelog_client.cli import main as command_line

    command_line()


def _check_health(arguments: list[str]) -> None:
    """Run `oncelog health` and exit, without click: its import takes as long as the check. Return
    if the arguments need click: for help, and for errors."""
    import os

    from oncelog_client.health import TIMEOUT_S, addresses_of, quick_arguments, run

    given = quick_arguments(arguments)
    if given is None:
        return
    try:
        addresses = addresses_of(*given, os.environ)
    except (OSError, ValueError):
        return
    sys.exit(run(addresses, TIMEOUT_S))
