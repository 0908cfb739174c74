"""What is installed: our packages, one program, and for a client nothing of the broker."""

from __future__ import annotations

import subprocess
import sys
from email.parser import Parser
from zipfile import ZipFile

import pytest

from oncelog_protocol import __version__
from tests.test_tidy import PACKAGES, ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """The wheel, built as `pip install .` builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*command, "--directory", str(folder)], cwd=ROOT, check=True, timeout=150)
    (path,) = folder.glob("*.whl")
    return ZipFile(path)


def test_every_module_is_in_the_wheel_and_nothing_else(wheel: ZipFile) -> None:
    expected = {
        str(path.relative_to(folder.parent))
        for folder in PACKAGES.values()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    metadata = {name for name in wheel.namelist() if ".dist-info/" in name}
    assert set(wheel.namelist()) - metadata == expected


def test_the_client_brings_nothing_of_the_broker(wheel: ZipFile) -> None:
    (name,) = (one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
    required = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    names = {text.split(">")[0].strip() for text in required}
    assert names == {"click", "construct", "cramjam", "crc32c", "rich"}


def test_the_version_is_that_of_the_code(wheel: ZipFile) -> None:
    (name,) = (one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
    assert Parser().parsestr(wheel.read(name).decode())["Version"] == __version__


def test_the_program_and_the_licence_are_there(wheel: ZipFile) -> None:
    names = wheel.namelist()
    (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
    assert "oncelog = oncelog_client.cli:main" in wheel.read(entry_points).decode()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("licenses/NOTICE") for name in names)
