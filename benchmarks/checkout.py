"""Another checkout of oncelog, measured in the same run as this one."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.machine import UnfitMachine
from benchmarks.setups import PLAIN, Setup
from benchmarks.targets import AGAINST, SETTINGS, Target, oncelog_target

_SOURCES: Final = ("protocol", "server", "client")
# A file that checkouts with TLS and access rules have.
_OF_SECURITY: Final = "server/oncelog_server/security/standard_authorizer.py"
_ORIGIN: Final = "import oncelog_server; print(oncelog_server.__file__)"


@dataclass(frozen=True, slots=True)
class Checkout:
    """The folder of a checkout. Its sources run with the interpreter and the packages of this
    process, so that only oncelog differs."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that make Python find the checkout's sources before the installed
        ones."""
        return {"PYTHONPATH": os.pathsep.join(str(self.root / name) for name in _SOURCES)}

    def prepare(self) -> None:
        """Compile the sources. Raises UnfitMachine if Python imports oncelog from another
        folder."""
        for name in _SOURCES:
            compileall.compile_dir(self.root / name, quiet=1)
        outcome = subprocess.run(
            [sys.executable, "-c", _ORIGIN],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        origin = outcome.stdout.strip() or outcome.stderr
        if not origin.startswith(str(self.root)):
            raise UnfitMachine(f"{self.root} is no checkout of oncelog: {origin}")

    def make(self, directory: Path, setup: Setup) -> Target | None:
        """Return the checkout's broker. It is not started. Return None for a setup with security if
        the checkout is older than the security."""
        if setup is not PLAIN and not (self.root / _OF_SECURITY).exists():
            return None
        return oncelog_target(AGAINST, directory, setup, SETTINGS, self.environment)


def commit_of(root: Path) -> str:
    """Return the commit of a checkout, with `-dirty` if it has uncommitted changes. Return
    "unknown" if git is missing or finds no commit."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return outcome.stdout.strip() or "unknown"
