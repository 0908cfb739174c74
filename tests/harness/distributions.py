"""The two distributions of the project, the whole project and the client alone, as users install
them: built from a clone, in a new virtual environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Final

from tests.harness.repository import ROOT, tracked

WHOLE: Final = "oncelog"
THIN: Final = "oncelog-client"
# For each name, the folder of its pyproject.toml, and the file with the pinned versions of its
# dependencies.
FOLDERS: Final = {WHOLE: Path("."), THIN: Path("client")}
PINS: Final = {WHOLE: "server.txt", THIN: "client.txt"}
BUILD_TIMEOUT_S: Final = 150


def clone(folder: Path) -> Path:
    """Copy the files that git tracks, with local changes. Copy no other files."""
    for file in tracked():
        place = folder / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    return folder


def build(project: Path, target: str, folder: Path) -> Path:
    """Build the `wheel` or the `sdist` of a project. Return its file."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    subprocess.run(
        [*command, "--directory", str(folder)],
        cwd=project,
        check=True,
        capture_output=True,
        timeout=BUILD_TIMEOUT_S,
    )
    (path,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return path


def unpacked(sdist: Path, folder: Path) -> Path:
    """Unpack an sdist. Return its only folder."""
    # Python 3.11 has filters from 3.11.4 on.
    filters: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, **filters)
    (top,) = folder.iterdir()
    return top


def environment(name: str, wheel: Path, folder: Path) -> Path:
    """Create a virtual environment with the wheel and the pinned dependencies. Return its `bin`."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60
    )
    uv = [str(Path(sys.executable).with_name("uv")), "pip"]
    here = ["--python", str(folder / "bin" / "python")]
    pins = ["--require-hashes", "-r", str(ROOT / "requirements" / PINS[name])]
    for words in (["--quiet", *here, *pins], ["--quiet", *here, "--no-deps", str(wheel)]):
        subprocess.run([*uv, "install", *words], check=True, timeout=BUILD_TIMEOUT_S)
    subprocess.run([*uv, "check", "--quiet", *here], check=True, timeout=60)
    return folder / "bin"
