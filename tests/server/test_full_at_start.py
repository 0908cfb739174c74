"""A full disk at a start (D6): the broker does the refused work once there is space."""

from __future__ import annotations

import asyncio
from pathlib import Path

from oncelog_server.broker import Broker
from oncelog_server.config import load_settings
from oncelog_server.environment import OsEnvironment
from oncelog_server.operating_system.os_files import OsFile
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import BOOT, CLOSED_LOGS_CHECKPOINT, TEMPORARY_SUFFIX
from tests.harness.driving import QUICK
from tests.harness.waiting import wait_until

QUICK_HERE = QUICK | {"listeners": "PLAINTEXT://127.0.0.1:0"}


def broker_in(environment: OsEnvironment, data: Path) -> Broker:
    assignments = [f"{name}={value}" for name, value in QUICK_HERE.items()]
    return Broker(load_settings(assignments=assignments, data=str(data)).settings, environment)


async def test_d6_the_boot_id_is_written_once_there_is_space(tmp_path: Path) -> None:
    """A start after a kill trusts the logs if the boot id is still that of the computer. Without
    the file, the start would have to read every log."""
    environment = OsEnvironment(str(tmp_path))
    create, full = environment.files.open, True

    def refusing(path: str, **given: bool) -> OsFile:
        if full and path.startswith(BOOT):
            raise StorageError("create", path, "the disk is full")
        return create(path, **given)

    environment.files.open = refusing  # type: ignore[method-assign]  # a fault
    broker = broker_in(environment, tmp_path)
    await broker.start()
    try:
        assert not (tmp_path / BOOT).exists()
        full = False
        await asyncio.to_thread(wait_until, (tmp_path / BOOT).exists, "the boot id is written")
        assert f"{BOOT}.tmp" not in environment.files.list("")
    finally:
        await broker.stop()


async def test_d6_an_unfinished_checkpoint_is_removed_once_there_is_space(tmp_path: Path) -> None:
    """Only a clean stop writes this checkpoint, so no other write replaces the file."""
    before = broker_in(OsEnvironment(str(tmp_path)), tmp_path)
    await before.start()
    await before.stop()
    left = tmp_path / f"{CLOSED_LOGS_CHECKPOINT}{TEMPORARY_SUFFIX}"
    left.write_bytes(b"half")
    environment = OsEnvironment(str(tmp_path))
    rename, full = environment.files.rename, True

    def refusing(source: str, target: str) -> None:
        if full and source.endswith(TEMPORARY_SUFFIX):
            raise StorageError("rename", source, "the disk is full")
        rename(source, target)

    environment.files.rename = refusing  # type: ignore[method-assign]  # a fault
    broker = broker_in(environment, tmp_path)
    await broker.start()
    try:
        assert left.exists()
        full = False
        await asyncio.to_thread(wait_until, lambda: not left.exists(), "the file is removed")
    finally:
        await broker.stop()
