"""Programs of Debian's packages. apt-get downloads a package once by name, and the user's cache
keeps it. Nothing is installed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

FETCH_TIMEOUT_S = 300.0


class DebianUnavailable(Exception):
    """A package cannot be fetched here. The message has the reason."""


def unpacked(*packages: str) -> Path:
    """Return the folder with the files of the packages. The folder has the name of the first
    package.

    Several processes may call this at once. Raises DebianUnavailable with the reason.
    """
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    directory = Path(root) / "oncelog" / packages[0]
    files = directory / "unpacked"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not files.exists():
            _fetch(packages, directory, files)
    return files


def _fetch(packages: Sequence[str], directory: Path, files: Path) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise DebianUnavailable(f"no `apt-get` on the PATH to fetch {packages[0]}")
    _run(["apt-get", "download", "--quiet=2", *packages], directory)
    work = directory / "unpacking"
    shutil.rmtree(work, ignore_errors=True)
    for package in packages:
        archive = max(directory.glob(f"{package}_*.deb"))
        _run(["dpkg", "-x", str(archive), str(work)], directory)
    work.rename(files)


def _run(command: Sequence[str], directory: Path) -> None:
    outcome = subprocess.run(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if outcome.returncode:
        raise DebianUnavailable(f"{' '.join(command)}: {outcome.stdout[-1000:]}")
