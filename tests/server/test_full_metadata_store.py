"""A broker starts on a disk without space for a new block of producer ids (D6). Producers that have
an id continue, and the coordinator serves their transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker import Broker
from oncelog_server.cluster import records
from oncelog_server.cluster.store import Compare, MetadataStore, TxnResult, WriteOperation
from oncelog_server.config import load_settings
from oncelog_server.environment import OsEnvironment
from oncelog_server.settings.model import Settings
from tests.harness.driving import QUICK, create, values
from tests.harness.writing import Identity, batch, end_transaction, new_identity, produce


class FullForBlocks(OsEnvironment):
    """An environment with a metadata store that refuses to allocate producer ids."""

    async def open_store(self, settings: Settings) -> MetadataStore:
        store = await super().open_store(settings)
        txn = store.txn

        async def refusing(
            compare: Sequence[Compare], operations: Sequence[WriteOperation]
        ) -> TxnResult:
            if any(operation.key == records.PRODUCER_IDS for operation in operations):
                raise OSError("the disk is full")
            return await txn(compare, operations)

        store.txn = refusing  # type: ignore[method-assign]  # a fault
        return store


@asynccontextmanager
async def connected(environment: OsEnvironment, directory: Path) -> AsyncIterator[Wire]:
    """Start a broker on the directory and yield a connection to it. Stop the broker in the end."""
    quick = QUICK | {"listeners": "PLAINTEXT://127.0.0.1:0"}
    assignments = [f"{name}={value}" for name, value in quick.items()]
    loaded = load_settings(assignments=assignments, data=str(directory))
    broker = Broker(loaded.settings, environment)
    await broker.start()
    _, host, port = broker.addresses[0]
    try:
        with await asyncio.to_thread(Wire, f"{host}:{port}") as wire:
            yield wire
    finally:
        await broker.stop()


def send(wire: Wire, producer: Identity, sequence: int, value: bytes) -> None:
    data = batch(producer, sequence, value=value)
    response = produce(wire, "t", data, producer=producer)
    assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)


def begin(wire: Wire) -> tuple[Identity, Identity]:
    """Return a producer with an open transaction, and a producer that has written nothing."""
    create(wire, "t")
    producer, silent = new_identity(wire, "t"), new_identity(wire, "silent")
    send(wire, producer, 0, b"before")
    return producer, silent


def commit_both(wire: Wire, producer: Identity, silent: Identity) -> list[bytes]:
    """Commit a record of each producer. Return the committed values."""
    for identity, sequence, value in ((producer, 1, b"after"), (silent, 0, b"first")):
        send(wire, identity, sequence, value)
        assert end_transaction(wire, identity, commit=True).error_code == ErrorCode.NONE
    return values(wire, "t")


async def test_d6_after_a_start_without_space_for_new_producer_ids_old_producers_continue(
    tmp_path: Path,
) -> None:
    async with connected(OsEnvironment(str(tmp_path)), tmp_path) as wire:
        producer, silent = await asyncio.to_thread(begin, wire)
    async with connected(FullForBlocks(str(tmp_path)), tmp_path) as wire:
        committed = await asyncio.to_thread(commit_both, wire, producer, silent)
    assert committed == [b"before", b"after", b"first"]
