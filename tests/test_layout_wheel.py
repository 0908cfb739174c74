"""The contents of the wheels: the packages, one program, the license. The client's wheel has
nothing of the broker."""

from __future__ import annotations

import tarfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from oncelog_protocol import __version__
from tests.harness.distributions import FOLDERS, THIN, WHOLE, build, clone, unpacked
from tests.harness.repository import PACKAGES

BOTH = pytest.mark.parametrize("name", [WHOLE, THIN])
BROKER = "oncelog_server"
TESTING = "oncelog/testing/"  # starts brokers


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clone(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def wheels(fresh: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ZipFile]:
    """Both wheels, built in the same way as by `pip install .` and `pip install ./client`."""
    return {
        name: ZipFile(build(fresh / folder, "wheel", tmp_path_factory.mktemp("wheel")))
        for name, folder in FOLDERS.items()
    }


@pytest.fixture(scope="module")
def sdists(fresh: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        name: build(fresh / folder, "sdist", tmp_path_factory.mktemp("sdist"))
        for name, folder in FOLDERS.items()
    }


def packages(name: str) -> dict[str, Path]:
    return {
        package: folder
        for package, folder in PACKAGES.items()
        if name == WHOLE or package != BROKER
    }


def code(wheel: ZipFile) -> set[str]:
    return {file for file in wheel.namelist() if ".dist-info/" not in file}


def metadata(wheel: ZipFile) -> Message:
    (file,) = (file for file in wheel.namelist() if file.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(file).decode())


def required(wheel: ZipFile) -> set[str]:
    """Return the names of the packages that an installation without extras installs."""
    lines = metadata(wheel).get_all("Requires-Dist", [])
    return {line.split(">")[0].strip() for line in lines if "extra ==" not in line}


@BOTH
def test_every_module_is_in_the_wheel_and_nothing_else(
    wheels: dict[str, ZipFile], name: str
) -> None:
    expected = {
        str(path.relative_to(folder.parent))
        for folder in packages(name).values()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if name == THIN:
        expected = {file for file in expected if not file.startswith(TESTING)}
    assert code(wheels[name]) == expected


@BOTH
def test_a_wheel_built_from_the_sdist_equals_the_wheel_built_from_the_clone(
    wheels: dict[str, ZipFile], sdists: dict[str, Path], name: str, tmp_path: Path
) -> None:
    (tmp_path / "sdist").mkdir()
    source = unpacked(sdists[name], tmp_path / "sdist")
    again = ZipFile(build(source, "wheel", tmp_path / "wheel"))
    first = wheels[name]
    assert set(again.namelist()) == set(first.namelist())
    changed = [
        file
        for file in again.namelist()
        if not file.endswith("/RECORD") and again.read(file) != first.read(file)
    ]
    assert not changed


def test_the_client_does_not_require_the_packages_of_the_broker(wheels: dict[str, ZipFile]) -> None:
    client = {"click", "cramjam", "crc32c", "rich"}
    assert required(wheels[THIN]) == client
    assert required(wheels[WHOLE]) == client | {
        "h11",
        "javaproperties",
        "msgspec",
        "structlog",
        "uvloop",
    }


@BOTH
def test_the_version_equals_the_version_in_the_code(wheels: dict[str, ZipFile], name: str) -> None:
    assert metadata(wheels[name])["Version"] == __version__


@BOTH
def test_the_metadata_has_the_fields_that_a_package_index_shows(
    wheels: dict[str, ZipFile], name: str
) -> None:
    """With these fields, pyroma rates the package 10 of 10."""
    shown = metadata(wheels[name])
    for field in ("Author-email", "Keywords", "License-Expression", "Project-URL", "Summary"):
        assert shown[field], field
    assert len(str(shown.get_payload())) > 1_000
    assert "Framework :: AsyncIO" in shown.get_all("Classifier", [])
    assert any(row.startswith("Development Status") for row in shown.get_all("Classifier", []))


@BOTH
def test_the_program_and_the_license_are_in_the_packages(
    wheels: dict[str, ZipFile], sdists: dict[str, Path], name: str
) -> None:
    files = wheels[name].namelist()
    (entry_points,) = (file for file in files if file.endswith("entry_points.txt"))
    said = wheels[name].read(entry_points).decode()
    assert "oncelog = oncelog_client.program:main" in said
    assert ("oncelog_server" in said) == (name == WHOLE)
    with tarfile.open(sdists[name]) as sdist:
        packed = sdist.getnames()
    for paper in ("LICENSE", "NOTICE"):
        assert any(file.endswith(f"licenses/{paper}") for file in files)
        assert any(file.count("/") == 1 and file.endswith(f"/{paper}") for file in packed)
