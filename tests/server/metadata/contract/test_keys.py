"""Every MetadataStore reads what was written, and a range at one revision."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_server.cluster.store import Delete, Entry, MetadataStore, Put

# More keys than three pages of etcd's store.
MANY = 2_500


def keys(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.key for entry in entries]


async def test_written_values_are_read_with_their_revisions(store: MetadataStore) -> None:
    first = await store.txn((), [Put("a", b"1"), Put("b", b"2")])
    second = await store.txn((), [Put("a", b"3")])
    assert (first.succeeded, second.succeeded) == (True, True)
    assert first.revision < second.revision
    assert await store.get("a") == Entry("a", b"3", first.revision, second.revision)
    assert await store.get("b") == Entry("b", b"2", first.revision, first.revision)
    assert await store.get("c") is None


async def test_a_range_has_the_keys_of_a_prefix_in_order_at_one_revision(
    store: MetadataStore,
) -> None:
    await store.txn((), [Put("t/b", b""), Put("t/a", b""), Put("u", b""), Put("t", b"")])
    last = await store.txn((), [Put("s", b"")])
    snapshot = await store.range("t/")
    assert keys(snapshot.entries) == ["t/a", "t/b"]
    assert snapshot.revision == last.revision
    assert keys((await store.range("")).entries) == ["s", "t", "t/a", "t/b", "u"]


async def test_a_range_without_keys_has_the_newest_revision(store: MetadataStore) -> None:
    before = (await store.range("")).revision
    last = await store.txn((), [Put("a", b"")])
    snapshot = await store.range("b")
    assert snapshot.entries == ()
    assert snapshot.revision == last.revision > before


@pytest.mark.parametrize("value", [b"", b"\0", bytes(range(256)), b"{}" * 50_000])
async def test_a_value_is_any_bytes(store: MetadataStore, value: bytes) -> None:
    await store.txn((), [Put("a", value)])
    entry = await store.get("a")
    assert entry is not None
    assert entry.value == value
    assert (await store.range("")).entries == (entry,)


async def test_a_prefix_ends_where_its_characters_end(store: MetadataStore) -> None:
    names = ["t", "t/", "t/a", "t/ä", "t/€/x", "t0", "tä", "t/\U0010ffff", "u"]
    await store.txn((), [Put(name, name.encode()) for name in names])
    for prefix in ("", "t", "t/", "t/ä", "t/\U0010ffff", "tä", "v"):
        entries = (await store.range(prefix)).entries
        expected = sorted((name for name in names if name.startswith(prefix)), key=str.encode)
        assert keys(entries) == expected
        assert all(entry.value == entry.key.encode() for entry in entries)


async def test_a_deleted_key_is_absent(store: MetadataStore) -> None:
    await store.txn((), [Put("a", b""), Put("b", b"")])
    await store.txn((), [Delete("a")])
    assert await store.get("a") is None
    assert keys((await store.range("")).entries) == ["b"]


async def test_a_key_created_again_has_a_new_create_revision(store: MetadataStore) -> None:
    first = await store.txn((), [Put("a", b"")])
    await store.txn((), [Delete("a")])
    again = await store.txn((), [Put("a", b"")])
    assert await store.get("a") == Entry("a", b"", again.revision, again.revision)
    assert again.revision > first.revision + 1


async def test_a_large_range_is_of_one_revision_while_a_writer_changes_its_keys(
    store: MetadataStore,
) -> None:
    names = [f"k{number:04}" for number in range(MANY)]
    for first in range(0, MANY, 100):
        await store.txn((), [Put(name, b"0") for name in names[first : first + 100]])
    # The keys of all pages, changed together.
    spread = names[::100]
    stopping = asyncio.Event()

    async def change() -> None:
        changes = 0
        while not stopping.is_set():
            changes += 1
            await store.txn((), [Put(name, b"%d" % changes) for name in spread])

    writer = asyncio.create_task(change())
    seen: set[bytes] = set()
    for _ in range(5):
        entries = {entry.key: entry for entry in (await store.range("k")).entries}
        assert list(entries) == names
        values = {entries[name].value for name in spread}
        assert len(values) == 1
        seen |= values
    stopping.set()
    await writer
    assert len(seen) > 1
