"""The other Pythons that the project supports, if the computer has them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SUPPORTED: Final = ("3.11", "3.12", "3.13")
RUNNING: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHERS: Final = tuple(version for version in SUPPORTED if version != RUNNING)


def _candidates(version: str) -> Iterator[str]:
    """Yield the Python on the PATH, which may be only a shim of pyenv, then pyenv's own."""
    found = shutil.which(f"python{version}")
    if found is not None:
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for each in sorted(pyenv.glob(f"versions/{version}.*/bin/python")):
        yield str(each)


def interpreter(version: str) -> str:
    """Return the interpreter of this version. Skip the test if there is none."""
    for candidate in _candidates(version):
        printed = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if printed.stdout.strip() == version:
            return candidate
    pytest.skip(f"no Python {version} on this machine, neither on the path nor of pyenv")


def with_the_broker_s_requirements(version: str, directory: Path) -> str:
    """Create a virtual environment in `directory` with the broker's requirements. Return its
    interpreter."""
    subprocess.run(
        [interpreter(version), "-m", "venv", "--without-pip", str(directory)], check=True
    )
    made = str(directory / "bin" / "python")
    uv = str(Path(sys.executable).parent / "uv")
    pins = str(ROOT / "requirements" / "server.txt")
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", made, "--require-hashes", "-r", pins],
        check=True,
    )
    return made
