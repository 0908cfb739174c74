"""Make a zip for `--py-files`, for executors on which oncelog is not installed.

    python -m oncelog_client.spark.executors_zip oncelog-executors.zip

Executors still need PyArrow, which Spark itself needs for Python data sources.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from .extensions import ABI_FILE, EXTENSIONS, FOLDER, abi

# The packages of oncelog, and the modules in them that an executor does not import.
PACKAGES: Final = ("oncelog", "oncelog_client", "oncelog_protocol", "pyspark_oncelog")
LEFT_OUT: Final = (
    "oncelog/__main__.py",
    "oncelog_client/cli",
    "oncelog_client/kafka_tools",
    "oncelog_client/spark/__main__.py",
    "oncelog_client/spark/executors_zip.py",
)
STAND_IN: Final = '''\
"""Stands in for the extension, which cannot be imported from a zip."""

from oncelog_client.spark.extensions import load

load(__name__, __file__)
'''
# A constant time, so that the same packages make the same file.
LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)


def write_executors_zip(path: Path) -> None:
    """Write the zip. Its C extensions fit executors with this Python version and kind of machine.
    On other executors the extensions must be installed. If not, the import raises an ImportError
    that says so."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for package in PACKAGES:
            for name, file in _files(package):
                if not any(
                    name == left_out or name.startswith(f"{left_out}/") for left_out in LEFT_OUT
                ):
                    _add(zipped, name, file.read_bytes())
        for extension in EXTENSIONS:
            _add(zipped, f"{extension}/__init__.py", STAND_IN.encode())
            for name, file in _files(extension):
                _add(zipped, f"{FOLDER}/{name}", file.read_bytes())
            for name, content in _papers(extension):
                _add(zipped, name, content)
        _add(zipped, ABI_FILE, abi().encode())


def _files(package: str) -> Iterator[tuple[str, Path]]:
    """Yield each file of an installed package with its name in the zip."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{package} is not installed")
    folder = Path(spec.submodule_search_locations[0])
    for file in sorted(folder.rglob("*")):
        if file.suffix in {".py", ".so"} and "__pycache__" not in file.parts:
            yield f"{package}/{file.relative_to(folder).as_posix()}", file


def _papers(package: str) -> Iterator[tuple[str, bytes]]:
    """Yield the license of a package, and the metadata with its version."""
    for file in importlib.metadata.distribution(package).files or ():
        if ".dist-info/" in str(file) and (file.name == "METADATA" or "licenses" in file.parts):
            yield file.as_posix(), file.read_binary()


def _add(zipped: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    zipped.writestr(entry, content)


@click.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
def main(path: Path) -> None:
    """Write the zip that executors need, for --py-files."""
    write_executors_zip(path)
    click.echo(f"{path}: {path.stat().st_size / 1e6:.1f} MB, for {abi()}")


if __name__ == "__main__":
    sys.exit(main())
