"""The program `oncelog`: the command line in its own process."""

from __future__ import annotations

from oncelog_client.process import run


def main() -> None:
    """Run the command line, and exit with its code."""
    run(_command_line)


def _command_line() -> None:
    # Imported here, because `run` has set the handler of Ctrl-C by now.
    from oncelog_client.cli import main as command_line

    command_line()
