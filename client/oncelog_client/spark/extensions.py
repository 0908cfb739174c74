"""On an executor: C extensions out of the zip of `executors_zip`, where Python cannot import them.

The zip has a stand-in for each of them, which calls `load`. One that is installed beside is taken
before the one in the zip, which is unpacked next to it, once for all processes of the executor.
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
# In that folder: for which interpreter and machine they are, as in the names of their files.
ABI_FILE: Final = f"{FOLDER}/ABI"


def abi() -> str:
    """Such as `cpython-311-x86_64-linux-gnu`."""
    return str(sysconfig.get_config_var("SOABI"))


def load(name: str, stand_in: str) -> None:
    """Put the extension in the place of its stand-in, whose file is inside the zip.

    Raises ImportError: nobody has installed it, and the zip is for another kind of machine.
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
                f"{archive.name} brings {name} for {made_for}, this executor is {abi()}:"
                f" make the zip on such a machine, or pip install {' '.join(EXTENSIONS)} here"
            )
        members = [one for one in zipped.infolist() if one.filename.startswith(f"{FOLDER}/")]
        content = zlib.crc32(repr([member.CRC for member in members]).encode())
        target = archive.with_name(f"{archive.name}.{content:08x}")
        if not target.is_dir():
            fresh = Path(tempfile.mkdtemp(prefix=f"{FOLDER}-", dir=archive.parent))
            zipped.extractall(fresh, members)
            # Whole, or not there: many processes come here at once.
            try:
                os.rename(fresh, target)
            except OSError:
                shutil.rmtree(fresh)
    return target / FOLDER
