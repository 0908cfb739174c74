"""Deletions run in one job of the executor at a time, so that other jobs of the disk get a
thread."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import structlog

from oncelog_server import environment as module
from oncelog_server.environment import OsEnvironment
from oncelog_server.operating_system.os_files import OsFiles
from oncelog_server.operating_system.removals import Removals
from oncelog_server.storage.files import Done, StorageError


class HeldJobs(Executor):
    """An executor that keeps its jobs until the test runs them."""

    def __init__(self) -> None:
        self.jobs: list[Callable[..., Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs.append(fn)
        return Future()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while self.jobs:
            self.jobs.pop(0)()


def folder(root: Path, name: str) -> tuple[str, str]:
    (root / name).mkdir()
    (root / name / "file").write_bytes(b"x")
    return name, str(root / name)


def test_one_job_deletes_all_queued_paths_in_order_and_a_later_path_starts_a_new_job(
    tmp_path: Path,
) -> None:
    executor = HeldJobs()
    ended: list[tuple[str, StorageError | None]] = []
    removals = Removals(executor, lambda callback: callback())

    def noted(name: str) -> Done:
        return lambda error: ended.append((name, error))

    for name in ("a", "b", "c"):
        removals.add([folder(tmp_path, name)], noted(name))
    assert len(executor.jobs) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]
    executor.jobs.pop()()
    assert ended == [("a", None), ("b", None), ("c", None)]
    assert not list(tmp_path.iterdir())
    removals.add([folder(tmp_path, "d")], None)
    (job,) = executor.jobs
    job()
    assert not list(tmp_path.iterdir())


def test_a_path_queued_while_a_job_runs_is_deleted_by_that_job(tmp_path: Path) -> None:
    executor = HeldJobs()
    removals = Removals(executor, lambda callback: callback())
    later = folder(tmp_path, "later")
    removals.add([folder(tmp_path, "now")], lambda error: removals.add([later], None))
    executor.jobs.pop()()
    assert (executor.jobs, list(tmp_path.iterdir())) == ([], [])


def test_an_error_is_reported_with_its_path_and_the_other_paths_are_deleted(tmp_path: Path) -> None:
    executor = HeldJobs()
    ended: list[StorageError | None] = []
    removals = Removals(executor, lambda callback: callback())
    (tmp_path / "file").write_bytes(b"x")
    below_a_file = ("below", str(tmp_path / "file" / "below"))
    missing = ("missing", str(tmp_path / "missing"))
    removals.add([below_a_file, missing, folder(tmp_path, "a")], ended.append)
    removals.add([missing, folder(tmp_path, "b")], ended.append)
    executor.jobs.pop()()
    assert [str(error) for error in ended] == ["remove below: Not a directory", "None"]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_of_several_errors_the_first_is_reported(tmp_path: Path) -> None:
    executor = HeldJobs()
    ended: list[StorageError | None] = []
    removals = Removals(executor, lambda callback: callback())
    (tmp_path / "file").write_bytes(b"x")
    names = ("first", "second")
    removals.add([(name, str(tmp_path / "file" / name)) for name in names], ended.append)
    executor.jobs.pop()()
    assert [str(error) for error in ended] == ["remove first: Not a directory"]


def test_a_callback_that_cannot_be_scheduled_stops_no_other_deletion(tmp_path: Path) -> None:
    executor = HeldJobs()

    def no_loop(callback: Callable[[], None]) -> None:
        raise RuntimeError("Event loop is closed")

    removals = Removals(executor, no_loop)
    removals.add([folder(tmp_path, "a")], lambda error: None)
    removals.add([folder(tmp_path, "b")], None)
    executor.jobs.pop()()
    removals.add([folder(tmp_path, "c")], None)
    executor.jobs.pop()()
    assert not list(tmp_path.iterdir())


def test_an_invalid_path_stops_no_other_deletion(tmp_path: Path) -> None:
    executor = HeldJobs()
    removals = Removals(executor, lambda callback: callback())
    removals.add([("a", str(tmp_path / "a\0"))], None)
    removals.add([folder(tmp_path, "b")], None)
    executor.jobs.pop()()
    assert not list(tmp_path.iterdir())


def test_a_clean_end_of_the_executor_waits_for_all_deletions(tmp_path: Path) -> None:
    names = [f"t-{number}" for number in range(50)]
    for name in names:
        folder(tmp_path, name)
    with ThreadPoolExecutor(4) as executor:
        files = OsFiles(str(tmp_path), executor=executor, call_on_loop=lambda callback: callback())
        for name in names:
            files.remove([name])
    assert not list(tmp_path.iterdir())


def test_a_directory_is_deleted_with_its_folders_and_without_what_its_links_lead_to(
    tmp_path: Path,
) -> None:
    executor = HeldJobs()
    removals = Removals(executor, lambda callback: callback())
    folder(tmp_path, "elsewhere")
    folder(tmp_path, "a")
    folder(tmp_path / "a", "below")
    (tmp_path / "a" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "a" / "dangling").symlink_to(tmp_path / "missing")
    removals.add([("a", str(tmp_path / "a"))], None)
    executor.jobs.pop()()
    assert [path.name for path in tmp_path.rglob("*")] == ["elsewhere", "file"]


def test_a_stop_drops_the_queue_and_ends_the_running_deletion_after_its_present_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop must not wait for the deletion of large topics. The next start deletes them."""
    executor = HeldJobs()
    removals = Removals(executor, lambda callback: callback())
    name, path = folder(tmp_path, "a")
    for number in range(5):
        (tmp_path / "a" / f"file{number}").write_bytes(b"x")
    unlinked: list[str] = []
    unlink = os.unlink

    def stop_at_the_first(file: str) -> None:
        unlink(file)
        unlinked.append(file)
        removals.stop()

    ended: list[StorageError | None] = []
    monkeypatch.setattr(os, "unlink", stop_at_the_first)
    removals.add([(name, path), folder(tmp_path, "b")], ended.append)
    removals.add([folder(tmp_path, "c")], ended.append)
    executor.jobs.pop()()
    removals.add([folder(tmp_path, "d")], ended.append)
    executor.jobs.pop()()
    assert len(unlinked) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "d"]
    assert not ended, "a removal that is not complete has not ended"


async def test_the_stop_of_a_broker_waits_for_no_queued_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = HeldJobs()
    monkeypatch.setattr(module, "ThreadPoolExecutor", lambda *_, **__: executor)
    environment = OsEnvironment(str(tmp_path))
    folder(tmp_path, "a")
    environment.files.remove(["a"])
    environment.close()
    assert not executor.jobs
    assert (tmp_path / "a" / "file").exists()


def test_an_error_that_no_callback_takes_is_logged(tmp_path: Path) -> None:
    executor = HeldJobs()
    removals = Removals(executor, lambda callback: callback())
    (tmp_path / "file").write_bytes(b"x")
    removals.add([("a", str(tmp_path / "file" / "a"))], None)
    with structlog.testing.capture_logs() as lines:
        executor.jobs.pop()()
    (line,) = lines
    assert line["reason"] == "remove a: Not a directory"
