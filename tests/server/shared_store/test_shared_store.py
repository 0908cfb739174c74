"""The store of the first broker, as the other brokers of its machine see it, also when the first
broker dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from oncelog_server.cluster.store import (
    Changes,
    Compacted,
    Compare,
    Lease,
    LeaseEnded,
    Put,
    TxnResult,
    UnknownOutcome,
    WriteOperation,
)
from oncelog_server.metadata.sqlite_store import SqliteStore
from oncelog_server.operating_system.socket_path import socket_path
from oncelog_server.shared_store.client import SocketStore
from oncelog_server.shared_store.messages import Failed, Response
from oncelog_server.shared_store.server import CHANGES_PER_TURN, SharedStore, _Connection
from tests.server.metadata.loop_turns import most_in_a_turn
from tests.server.metadata.memory_store import MemoryStore
from tests.server.metadata.short_leases import before_the_end

NAME = "store.sock"
SHORT_MS = 150
LONG_MS = 60_000
DEADLINE_S = 20


class First:
    """The first broker's process, as far as its store goes. Its death ends all its leases."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shared: SharedStore | None = None

    async def start(self) -> SharedStore:
        inner = await SqliteStore.open(self.path / "metadata.sqlite")
        self.shared = SharedStore(inner, self.path, NAME)
        await self.shared.open()
        return self.shared

    async def die(self) -> None:
        assert self.shared is not None
        for connection in list(self.shared._connections):
            await connection.close()
        await self.shared.close()
        self.shared = None


@pytest.fixture
async def first(tmp_path: Path) -> AsyncIterator[First]:
    first = First(tmp_path)
    await first.start()
    yield first
    if first.shared is not None:
        await first.die()


@pytest.fixture
async def store(first: First) -> AsyncIterator[SocketStore]:
    store = SocketStore(first.path, NAME)
    yield store
    await store.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0.005)


async def test_only_the_owner_may_use_the_socket(first: First) -> None:
    assert (first.path / NAME).stat().st_mode & 0o777 == 0o600


async def test_a_lease_without_keepalives_ends_with_its_keys(store: SocketStore) -> None:
    async def put(lease: Lease) -> tuple[Lease, TxnResult]:
        assert lease.ttl_ms == SHORT_MS
        return lease, await store.txn((), [Put("mine", b"", lease.id)])

    lease, written = await before_the_end(store, SHORT_MS, put)
    watch = store.watch("", written.revision + 1)
    async with asyncio.timeout(DEADLINE_S):
        ended = await anext(watch)
    assert [event.key for event in ended.events] == ["mine"]
    with pytest.raises(LeaseEnded):
        await lease.keep_alive()
    await watch.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_keepalives_keep_a_lease(store: SocketStore) -> None:
    kept = await store.lease(LONG_MS)

    async def put(ending: Lease) -> None:
        await store.txn((), [Put("kept", b"", kept.id), Put("ending", b"", ending.id)])

    await before_the_end(store, SHORT_MS, put)
    assert await kept.keep_alive() == LONG_MS
    keys: list[str] = ["kept", "ending"]
    async with asyncio.timeout(DEADLINE_S):
        while keys != ["kept"]:
            keys = [entry.key for entry in (await store.range("")).entries]


async def test_the_leases_of_the_first_broker_end_by_time_too(first: First) -> None:
    """A broker takes leases without a time to live as a sign that it is alone."""
    assert first.shared is not None
    lease = await first.shared.lease(LONG_MS)
    assert (lease.ttl_ms, await lease.keep_alive()) == (LONG_MS, LONG_MS)


async def test_after_the_death_of_the_first_broker_its_leases_have_ended(
    first: First, store: SocketStore
) -> None:
    lease = await store.lease(LONG_MS)
    await store.txn((), [Put("leased", b"", lease.id), Put("lasting", b"")])
    await first.die()
    with pytest.raises(OSError, match="first broker"):
        await lease.keep_alive()
    await first.start()
    with pytest.raises(LeaseEnded):
        await lease.keep_alive()
    assert [entry.key for entry in (await store.range("")).entries] == ["lasting"]


async def test_a_watch_resumes_after_the_death_of_the_first_broker(
    first: First, store: SocketStore
) -> None:
    """The new process keeps no old changes, so a watch that has missed some begins anew."""
    written = await store.txn((), [Put("a", b"1")])
    seen: list[Changes] = []
    ended: list[type[Exception]] = []

    async def watch() -> None:
        try:
            async for changes in store.watch("", written.revision + 1):
                seen.append(changes)
        except Compacted as compacted:
            ended.append(type(compacted))

    watching = asyncio.create_task(watch())
    second = await store.txn((), [Put("a", b"2")])
    await until(lambda: bool(seen))
    await first.die()
    await first.start()
    third = await store.txn((), [Put("a", b"3")])
    await until(lambda: len(seen) == 2)
    assert [changes.revision for changes in seen] == [second.revision, third.revision]
    watching.cancel()
    await asyncio.wait([watching])
    with pytest.raises(Compacted):
        await anext(store.watch("", written.revision))


async def test_a_transaction_without_a_response_has_an_unknown_outcome(
    first: First, store: SocketStore
) -> None:
    assert first.shared is not None
    await store.get("a")
    begun = asyncio.Event()

    async def hangs(compare: Sequence[Compare], operations: Sequence[WriteOperation]) -> TxnResult:
        begun.set()
        await asyncio.Future()
        raise AssertionError

    first.shared.txn = hangs  # type: ignore[method-assign]
    writing = asyncio.create_task(store.txn((), [Put("a", b"1")]))
    await begun.wait()
    await first.die()
    with pytest.raises(UnknownOutcome):
        await writing


async def test_a_transaction_that_was_never_sent_has_changed_nothing(
    first: First, store: SocketStore
) -> None:
    await first.die()
    with pytest.raises(OSError, match="first broker") as refused:
        await store.txn((), [Put("a", b"1")])
    assert not isinstance(refused.value, UnknownOutcome)


async def test_bad_bytes_end_only_their_own_connection(first: First, store: SocketStore) -> None:
    await store.txn((), [Put("a", b"1")])
    with socket_path(first.path, NAME) as path:
        reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"\x00\x00\x00\x04GET ")
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    assert (await store.get("a")) is not None


async def test_many_missed_changes_are_sent_in_several_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first broker serves clients while a watch of another broker resumes."""
    inner, sent = MemoryStore(), 0
    send = _Connection._send

    def counted(self: _Connection, response: Response | Failed) -> None:
        nonlocal sent
        sent += 1
        send(self, response)

    monkeypatch.setattr(_Connection, "_send", counted)
    shared = SharedStore(inner, tmp_path, NAME)
    await shared.open()
    for number in range(1_000):
        inner.apply([Put("a", str(number).encode())])
    store = SocketStore(tmp_path, NAME)
    watch = store.watch("", 1)
    first = asyncio.ensure_future(anext(watch))
    try:
        assert await most_in_a_turn(lambda: sent, lambda: sent == 1_000) <= CHANGES_PER_TURN
        assert (await first).revision == 1
    finally:
        first.cancel()
        await store.close()
        await shared.close()
