"""Damage to a broker's metadata while it is down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from oncelog_server.cluster.store import Delete
from oncelog_server.metadata.sqlite_store import SqliteStore
from tests.faults.folders import STORE, lose_store
from tests.harness.broker import Oncelog
from tests.harness.driving import damage


def empty_store(store: Path, keep: tuple[str, ...]) -> None:
    """Delete all records except those with a key in `keep`, in one transaction of the metadata
    store. The broker deletes records in the same way."""

    async def empty() -> None:
        opened = await SqliteStore.open(store)
        keys = [entry.key for entry in (await opened.range("")).entries]
        await opened.txn((), [Delete(key) for key in keys if key not in keep])
        await opened.close()

    asyncio.run(empty())


def _truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _lose_all(broker: Oncelog) -> None:
    lose_store(broker, copy=True)
    (broker.data / "meta.properties").unlink()


def _clear(name: str) -> Callable[[Oncelog], None]:
    def clear(broker: Oncelog) -> None:
        (broker.data / name).write_bytes(b"")

    return clear


LOSSES: dict[str, Callable[[Oncelog], None]] = {
    "the store is gone": lose_store,
    "the store and its copy are gone": lambda broker: lose_store(broker, copy=True),
    "the store has no records": lambda broker: empty_store(broker.data / STORE, ()),
    "meta.properties is gone": lambda broker: (broker.data / "meta.properties").unlink(),
    "meta.properties is empty": _clear("meta.properties"),
    "all metadata is gone": _lose_all,
}
# Damage to the store of a cleanly stopped broker. After a kill, sqlite's write-ahead log would
# still have the pages that the damage removes from the store's file.
DAMAGES: dict[str, Callable[[Oncelog], None]] = {
    "the store is empty": _clear(STORE),
    "the store is truncated": lambda broker: _truncate(broker.data / STORE),
    "the store is not a database": lambda broker: damage(broker.data / STORE, 3),
}
