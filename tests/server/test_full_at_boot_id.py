"""A disk that refuses the file of the boot id at a start (D6): it is written when there is space
again, so the next start after a kill need not read every log."""

from __future__ import annotations

import asyncio
from pathlib import Path

from oncelog_server.broker import Broker
from oncelog_server.config import load_settings
from oncelog_server.environment import OsEnvironment
from oncelog_server.operating_system.os_files import OsFile
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import BOOT
from tests.harness.driving import QUICK
from tests.harness.waiting import wait_until


async def test_d6_the_boot_id_is_written_once_there_is_space(tmp_path: Path) -> None:
    environment = OsEnvironment(str(tmp_path))
    create, full = environment.files.open, True

    def refusing(path: str, **given: bool) -> OsFile:
        if full and path.startswith(BOOT):
            raise StorageError("create", path, "the disk is full")
        return create(path, **given)

    environment.files.open = refusing  # type: ignore[method-assign]  # a fault
    quick = QUICK | {"listeners": "PLAINTEXT://127.0.0.1:0"}
    assignments = [f"{name}={value}" for name, value in quick.items()]
    broker = Broker(
        load_settings(assignments=assignments, data=str(tmp_path)).settings, environment
    )
    await broker.start()
    try:
        assert not (tmp_path / BOOT).exists()
        full = False
        await asyncio.to_thread(wait_until, (tmp_path / BOOT).exists, "the boot id is written")
        assert f"{BOOT}.tmp" not in environment.files.list("")
    finally:
        await broker.stop()
