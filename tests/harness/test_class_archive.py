"""A JVM uses an archive of classes if there is one, and starts without it otherwise."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.class_archive import ClassArchive
from tests.harness.kafka.jars import classpath, java
from tests.harness.kafka.tools import TOOL_JVM_OPTIONS, TOOLS


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "a.jar").write_bytes(b"a")
    return folder


def run_a_tool(options: Sequence[str]) -> str:
    command = [java(), *TOOL_JVM_OPTIONS, *options, "-cp", classpath(), TOOLS["topics"], "--help"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr


def test_a_jvm_loads_its_classes_from_the_archive(kafka_jars: str, tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path, java(), Path(kafka_jars).parent)
    assert archive.options == ()

    def run(options: Sequence[str]) -> None:
        run_a_tool(options)

    archive.make(run)
    loaded = run_a_tool([*archive.options, "-Xlog:class+load"])
    assert "TopicCommand source: shared objects file (top)" in loaded
    assert "--bootstrap-server" in loaded


def test_an_archive_is_made_once(jars: Path, tmp_path: Path) -> None:
    asked: list[Path] = []

    def run(options: Sequence[str]) -> None:
        asked.append(Path(options[0].partition("=")[2]))
        asked[-1].write_bytes(b"classes")

    for _ in range(2):
        archive = ClassArchive(tmp_path, "/bin/sh", jars)
        archive.make(run)
        (option, *_) = archive.options
        assert Path(option.partition("=")[2]).read_bytes() == b"classes"
    assert len(asked) == 1


def test_an_archive_that_a_jvm_cannot_create_is_not_tried_again(jars: Path, tmp_path: Path) -> None:
    asked: list[Sequence[str]] = []
    for _ in range(2):
        archive = ClassArchive(tmp_path, "/bin/sh", jars)
        archive.make(asked.append)
        assert archive.options == ()
    assert len(asked) == 1


def test_a_jvm_runs_without_an_archive_that_is_being_created(jars: Path, tmp_path: Path) -> None:
    def run(options: Sequence[str]) -> None:
        other = ClassArchive(tmp_path, "/bin/sh", jars)
        other.make(lambda options: pytest.fail("made twice"))
        assert other.options == ()

    ClassArchive(tmp_path, "/bin/sh", jars).make(run)
    (lock,) = tmp_path.glob("*.lock")
    with lock.open() as free:
        fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_other_jars_have_another_archive(jars: Path, tmp_path: Path) -> None:
    def run(options: Sequence[str]) -> None:
        Path(options[0].partition("=")[2]).write_bytes(b"classes")

    ClassArchive(tmp_path, "/bin/sh", jars).make(run)
    (jars / "b.jar").write_bytes(b"b")
    assert ClassArchive(tmp_path, "/bin/sh", jars).options == ()
