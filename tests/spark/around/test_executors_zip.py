"""The zip for --py-files, in a Python without any of our packages."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from oncelog_client.spark.executors_zip import write_executors_zip
from oncelog_client.spark.extensions import ABI_FILE, EXTENSIONS, abi

USE_ALL = """
import cramjam, crc32c
from oncelog import Producer
from oncelog_protocol.records.compression import Compression, compress, decompress
from oncelog_protocol.checksum import crc32c as checksum
assert checksum(b"123456789") == crc32c.crc32c(b"123456789") == 0xE3069283
print(Producer.__module__, cramjam.__file__, crc32c.__file__, sep="\\n")
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("zip") / "oncelog-executors.zip"
    write_executors_zip(path)
    return path


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python that has only the standard library."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60
    )
    return folder / "bin" / "python"


def run(python: Path, code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-c", code],
        env={"PYTHONPATH": ":".join(map(str, path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_zip_works_in_a_python_without_packages(bare_python: Path, archive: Path) -> None:
    said = run(bare_python, USE_ALL, archive)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("oncelog_client.producer\n")


def test_extensions_are_unpacked_once_for_many_processes(
    bare_python: Path, archive: Path, tmp_path: Path
) -> None:
    mine = tmp_path / archive.name
    mine.write_bytes(archive.read_bytes())
    command = [str(bare_python), "-c", USE_ALL]
    started = [
        subprocess.Popen(command, env={"PYTHONPATH": str(mine)}, stdout=subprocess.PIPE)
        for _ in range(6)
    ]
    printed = {process.communicate(timeout=60)[0] for process in started}
    assert [process.returncode for process in started] == [0] * 6
    assert len(printed) == 1
    assert len([*tmp_path.iterdir()]) == 2, "there must be only the zip and one folder beside it"


def test_an_installed_extension_has_precedence_over_the_zip(
    bare_python: Path, archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "crc32c.py").write_text("crc32c = 'installed'")
    said = run(bare_python, "import crc32c; print(crc32c.crc32c)", archive, tmp_path)
    assert said.stdout == "installed\n"


def test_a_zip_for_another_platform_is_refused_in_one_line(
    bare_python: Path, archive: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            target.writestr(name, b"cpython-38-mips" if name == ABI_FILE else source.read(name))
    said = run(bare_python, "import crc32c", other)
    assert said.stderr.splitlines()[-1] == (
        f"ImportError: other.zip has crc32c for cpython-38-mips, this executor is {abi()}:"
        " make the zip on such a machine, or pip install cramjam crc32c here"
    )


def test_the_zip_contains_only_files_for_executors(archive: Path) -> None:
    with zipfile.ZipFile(archive) as zipped:
        tops = {name.split("/")[0] for name in zipped.namelist()}
        unwanted = ("/cli/", "__pycache__", "__main__")
        cli = [name for name in zipped.namelist() if any(part in name for part in unwanted)]
    ours = {"oncelog", "oncelog_client", "oncelog_protocol", "pyspark_oncelog", "extensions"}
    assert {top for top in tops if not top.endswith(".dist-info")} == ours | {*EXTENSIONS}
    assert not cli
    assert archive.stat().st_size < 4_000_000


def test_the_same_packages_make_the_same_zip(archive: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.zip"
    write_executors_zip(again)
    assert again.read_bytes() == archive.read_bytes()


def test_every_module_in_the_zip_can_be_imported_on_an_executor(
    archive: Path, tmp_path: Path
) -> None:
    """No module of the executors imports a package that only drivers have."""
    code = """
import importlib, sys, zipfile
sys.path[:] = [sys.argv[1], *sys.path]
for blocked in ("click", "rich", "numpy", "pandas", "grpc"):
    sys.modules[blocked] = None
for name in zipfile.ZipFile(sys.argv[1]).namelist():
    if name.startswith(("oncelog_client/", "oncelog_protocol/")) and name.endswith(".py"):
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        assert importlib.import_module(module).__file__.startswith(sys.argv[1]), module
"""
    said = subprocess.run(
        [sys.executable, "-c", code, archive], capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 0, said.stderr
