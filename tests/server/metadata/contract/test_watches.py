"""Every watch of a MetadataStore yields each change of its prefix once, in the order of
revisions."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_server.cluster.store import Changes, Delete, Entry, Event, MetadataStore, Put
from tests.server.metadata.collected import collect, watching


async def test_a_watch_sees_every_change_of_its_prefix_in_order(store: MetadataStore) -> None:
    first = await store.txn((), [Put("t/a", b"1"), Put("u", b"1"), Put("t/b", b"1")])
    second = await store.txn((), [Put("u", b"2")])
    third = await store.txn((), [Delete("t/a"), Put("t/b", b"3")])
    assert await collect(store, "t/", first.revision, 2) == [
        Changes(
            first.revision,
            (
                Event("t/a", Entry("t/a", b"1", first.revision, first.revision)),
                Event("t/b", Entry("t/b", b"1", first.revision, first.revision)),
            ),
        ),
        Changes(
            third.revision,
            (
                Event("t/a", None),
                Event("t/b", Entry("t/b", b"3", first.revision, third.revision)),
            ),
        ),
    ]
    (changes,) = await collect(store, "u", second.revision, 1)
    assert changes.revision == second.revision


async def test_a_watch_waits_for_later_changes(store: MetadataStore) -> None:
    start = (await store.range("")).revision + 1
    watched = asyncio.create_task(collect(store, "a", start, 20))
    results = await asyncio.gather(
        *(store.txn((), [Put(f"a{number}", b"")]) for number in range(20))
    )
    revisions = [changes.revision for changes in await watched]
    assert revisions == sorted(result.revision for result in results)


async def test_a_watch_goes_from_old_changes_to_new_ones_without_a_gap(
    store: MetadataStore,
) -> None:
    start = (await store.range("")).revision + 1
    revisions = []
    half = asyncio.Event()

    async def write() -> None:
        for number in range(60):
            result = await store.txn((), [Put("a", b"%d" % number)])
            revisions.append(result.revision)
            if number == 30:
                half.set()

    writer = asyncio.create_task(write())
    await half.wait()
    seen = await collect(store, "", start, 60)
    await writer
    assert [changes.revision for changes in seen] == revisions
    values = [event.entry.value for changes in seen for event in changes.events if event.entry]
    assert values == [b"%d" % number for number in range(60)]


async def test_a_watch_may_begin_at_a_later_revision(store: MetadataStore) -> None:
    first = await store.txn((), [Put("a", b"1")])
    watched = asyncio.create_task(collect(store, "", first.revision + 3, 1))
    results = [await store.txn((), [Put("a", b"%d" % number)]) for number in range(3)]
    (changes,) = await watched
    assert changes.revision == results[-1].revision


async def test_every_watch_gets_all_changes_of_its_own_prefix(store: MetadataStore) -> None:
    start = (await store.range("")).revision + 1
    watched = [
        asyncio.create_task(collect(store, prefix, start, count))
        for prefix, count in [("", 30), ("a", 10), ("b", 10), ("c", 10), ("a", 10)]
    ]
    revisions: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    for number in range(30):
        prefix = "abc"[number % 3]
        result = await store.txn((), [Put(f"{prefix}{number}", b"")])
        revisions[prefix].append(result.revision)
    seen = [[changes.revision for changes in part] for part in await asyncio.gather(*watched)]
    every = sorted(revision for found in revisions.values() for revision in found)
    assert seen == [every, revisions["a"], revisions["b"], revisions["c"], revisions["a"]]


async def test_events_have_the_order_of_the_operations(store: MetadataStore) -> None:
    first = await store.txn((), [Put("b", b""), Put("c", b"")])
    last = await store.txn((), [Put("z", b""), Delete("c"), Put("a", b""), Delete("b")])
    (changes,) = await collect(store, "", first.revision + 1, 1)
    assert changes.revision == last.revision
    assert [(event.key, event.entry is None) for event in changes.events] == [
        ("z", False),
        ("c", True),
        ("a", False),
        ("b", True),
    ]


async def test_a_key_deleted_and_created_again_has_two_changes(store: MetadataStore) -> None:
    first = await store.txn((), [Put("a", b"1")])
    second = await store.txn((), [Delete("a")])
    third = await store.txn((), [Put("a", b"2")])
    assert await collect(store, "a", first.revision + 1, 2) == [
        Changes(second.revision, (Event("a", None),)),
        Changes(third.revision, (Event("a", Entry("a", b"2", third.revision, third.revision)),)),
    ]


async def test_what_changes_nothing_has_no_event(store: MetadataStore) -> None:
    first = await store.txn((), [Put("a", b"1")])
    await store.txn((), [Delete("none")])
    await store.txn((), ())
    last = await store.txn((), [Put("a", b"1")])
    # A Put of the same value is a change.
    (changes,) = await collect(store, "", first.revision + 1, 1)
    assert changes.revision == last.revision


async def test_a_watch_that_is_closed_leaves_the_store_as_it_is(store: MetadataStore) -> None:
    start = (await store.range("")).revision + 1
    async with watching(store, "", start) as watch:
        first = await store.txn((), [Put("a", b"")])
        assert (await anext(watch)).revision == first.revision
    waiting = asyncio.create_task(collect(store, "", first.revision + 1, 1))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    second = await store.txn((), [Put("a", b"")])
    seen = await collect(store, "", start, 2)
    assert [changes.revision for changes in seen] == [first.revision, second.revision]


async def test_a_range_and_a_watch_from_the_next_revision_miss_nothing(
    store: MetadataStore,
) -> None:
    """This is how the image of the metadata follows the store."""
    stopping = asyncio.Event()

    async def write() -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            key = f"k{number % 7}"
            await store.txn((), [Delete(key) if number % 3 == 0 else Put(key, b"%d" % number)])

    writer = asyncio.create_task(write())
    for _ in range(3):
        snapshot = await store.range("")
        image = {entry.key: entry for entry in snapshot.entries}
        async with watching(store, "", snapshot.revision + 1) as watch:
            for _ in range(10):
                apply(image, await anext(watch))
    stopping.set()
    await writer
    end = await store.txn((), [Put("end", b"")])
    last = await store.range("")
    newest = max(entry.mod_revision for entry in image.values())
    async with watching(store, "", newest + 1) as watch:
        while newest < end.revision:
            changes = await anext(watch)
            apply(image, changes)
            newest = changes.revision
    assert sorted(image.values(), key=lambda entry: entry.key) == list(last.entries)


def apply(image: dict[str, Entry], changes: Changes) -> None:
    """Apply changes to the present entries of a prefix."""
    for event in changes.events:
        if event.entry is None:
            image.pop(event.key, None)
        else:
            image[event.key] = event.entry
