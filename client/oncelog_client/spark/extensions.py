"""Loads C extensions from the zip of `executors_zip` on an executor, because Python cannot import
extensions from a zip.

The zip has a stand-in for each extension. A stand-in calls `load`. `load` prefers an installed
extension. Otherwise `load` unpacks the extension beside the zip, once for all processes of the
executor.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Final

EXTENSIONS: Final = ("cramjam", "crc32c")
FOLDER: Final = "extensions"
# The file in the zip that names the interpreter and the kind of machine of the extensions.
ABI_FILE: Final = f"{FOLDER}/ABI"


def abi() -> str:
    """Return the interpreter and kind of machine, such as `cpython-311-x86_64-linux-gnu`."""
    return str(sysconfig.get_config_var("SOABI"))


def load(name: str, stand_in: str) -> None:
    """Load the compiled extension `name` in place of `stand_in`, a Python file inside the zip.

    Raises ImportError if the extension is not installed and the zip has none for this machine.
    """
    archive = _archive(Path(stand_in))
    beside = [entry for entry in sys.path if Path(entry).absolute() != archive]
    spec = importlib.machinery.PathFinder.find_spec(name, beside)
    if spec is None:
        spec = importlib.machinery.PathFinder.find_spec(name, [str(_unpacked(archive, name))])
    if spec is None or spec.loader is None:
        raise ImportError(f"{archive} has no {name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _archive(inside: Path) -> Path:
    return next(parent for parent in inside.absolute().parents if parent.is_file())


def _unpacked(archive: Path, name: str) -> Path:
    with zipfile.ZipFile(archive) as zipped:
        made_for = zipped.read(ABI_FILE).decode()
        if made_for != abi():
            raise ImportError(
                f"{archive.name} has {name} for {made_for}, this executor is {abi()}:"
                f" make the zip on such a machine, or pip install {' '.join(EXTENSIONS)} here"
            )
        members = [
            member for member in zipped.infolist() if member.filename.startswith(f"{FOLDER}/")
        ]
        content = zlib.crc32(repr([member.CRC for member in members]).encode())
        target = archive.with_name(f"{archive.name}.{content:08x}")
        if not target.is_dir():
            fresh = Path(tempfile.mkdtemp(prefix=f"{FOLDER}-", dir=archive.parent))
            zipped.extractall(fresh, members)
            # Several processes of the executor may unpack at the same time. The rename is atomic.
            # If it fails, another process was faster.
            try:
                os.rename(fresh, target)
            except OSError:
                shutil.rmtree(fresh)
    return target / FOLDER
