"""Every MetadataStore carries out all operations of a transaction at one revision, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from oncelog_server.cluster.store import (
    MAX_OPERATIONS,
    Compare,
    Created,
    Delete,
    Entry,
    MetadataStore,
    Put,
    TxnResult,
    Written,
)
from tests.server.metadata.collected import collect

# A condition for key `a`, which was created at `first` and written last at `last`.
Condition = Callable[[int, int], Compare]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (lambda first, last: Written("a", last), True),
        (lambda first, last: Written("a", first), False),
        (lambda first, last: Written("a", 0), False),
        (lambda first, last: Written("none", 0), True),
        (lambda first, last: Created("a", first), True),
        (lambda first, last: Created("a", last), False),
        (lambda first, last: Created("none", 0), True),
        (lambda first, last: Created("none", first), False),
    ],
)
async def test_a_transaction_succeeds_only_if_its_condition_holds(
    store: MetadataStore, condition: Condition, holds: bool
) -> None:
    first = await store.txn((), [Put("a", b"1")])
    last = await store.txn((), [Put("a", b"2")])
    compare = condition(first.revision, last.revision)
    present = await store.get(compare.key)
    result = await store.txn([compare], [Put("x", b"")])
    assert result.succeeded is holds
    assert (await store.get("x") is not None) is holds
    assert result.revision == (last.revision + 1 if holds else 0)
    assert result.current == (() if holds else (present,))


async def test_if_one_condition_fails_nothing_changes(store: MetadataStore) -> None:
    before = (await store.range("")).revision
    result = await store.txn([Created("a", 0), Created("b", 7)], [Put("a", b""), Put("c", b"")])
    assert result == TxnResult(False, 0, (None, None))
    assert (await store.range("")).entries == ()
    assert (await store.range("")).revision == before


async def test_a_failed_transaction_returns_the_present_entries_in_the_order_of_its_conditions(
    store: MetadataStore,
) -> None:
    first = await store.txn((), [Put("a", b"1"), Put("b", b"2")])
    second = await store.txn((), [Put("b", b"3")])
    conditions: list[Compare] = [
        Written("b", second.revision),
        Written("none", 0),
        Written("a", 0),
        Created("b", first.revision),
    ]
    b = Entry("b", b"3", first.revision, second.revision)
    a = Entry("a", b"1", first.revision, first.revision)
    assert (await store.txn(conditions, [Put("c", b"")])).current == (b, None, a, b)


async def test_operations_have_all_their_effects_at_one_revision(store: MetadataStore) -> None:
    first = await store.txn((), [Put("a", b""), Put("b", b"")])
    result = await store.txn((), [Delete("a"), Put("b", b"2"), Put("c", b"3")])
    assert (await store.range("")).entries == (
        Entry("b", b"2", first.revision, result.revision),
        Entry("c", b"3", result.revision, result.revision),
    )
    assert (await store.range("")).revision == result.revision


async def test_a_delete_of_a_missing_key_makes_no_new_revision(store: MetadataStore) -> None:
    first = await store.txn((), [Put("a", b"")])
    assert await store.txn((), [Delete("none")]) == TxnResult(True, 0)
    assert (await store.range("")).revision == first.revision


async def test_a_transaction_without_operations_only_checks_its_conditions(
    store: MetadataStore,
) -> None:
    first = await store.txn((), [Put("a", b"1")])
    assert await store.txn((), ()) == TxnResult(True, 0)
    assert await store.txn([Written("a", first.revision)], ()) == TxnResult(True, 0)
    entry = Entry("a", b"1", first.revision, first.revision)
    assert await store.txn([Written("a", 0)], ()) == TxnResult(False, 0, (entry,))
    assert (await store.range("")).revision == first.revision


async def test_a_key_deleted_and_created_again_fails_the_conditions_of_the_first(
    store: MetadataStore,
) -> None:
    first = await store.txn((), [Put("a", b"1")])
    await store.txn((), [Delete("a")])
    again = await store.txn((), [Put("a", b"1")])
    for stale in (Written("a", first.revision), Created("a", first.revision)):
        result = await store.txn([stale], [Delete("a")])
        assert result.current == (Entry("a", b"1", again.revision, again.revision),)


async def test_limits_are_those_of_etcd(store: MetadataStore) -> None:
    puts = [Put(f"k{number}", b"") for number in range(MAX_OPERATIONS)]
    assert (await store.txn((), puts)).succeeded
    with pytest.raises(ValueError, match="more than 128"):
        await store.txn((), [*puts, Put("one more", b"")])
    with pytest.raises(ValueError, match="more than 128"):
        await store.txn([Created(str(number), 0) for number in range(129)], ())
    with pytest.raises(ValueError, match="two operations"):
        await store.txn((), [Put("a", b""), Delete("a")])
    assert len((await store.range("")).entries) == MAX_OPERATIONS


async def test_128_conditions_return_128_present_entries(store: MetadataStore) -> None:
    puts = [Put(f"k{number}", b"%d" % number) for number in range(MAX_OPERATIONS)]
    assert (await store.txn([Created(put.key, 0) for put in puts], puts)).succeeded
    again = await store.txn([Created(put.key, 0) for put in puts], puts)
    assert not again.succeeded
    present = {entry.key: entry.value for entry in again.current if entry is not None}
    assert present == {put.key: put.value for put in puts}


async def test_one_of_two_concurrent_writers_succeeds(store: MetadataStore) -> None:
    results = await asyncio.gather(
        *(store.txn([Created("once", 0)], [Put("once", b"%d" % number)]) for number in range(10))
    )
    (winner,) = (number for number, result in enumerate(results) if result.succeeded)
    entry = await store.get("once")
    assert entry is not None
    assert entry.value == b"%d" % winner
    losers = [result for result in results if not result.succeeded]
    assert [result.current for result in losers] == [(entry,)] * 9


async def test_no_increment_of_concurrent_writers_is_lost(store: MetadataStore) -> None:
    async def increment() -> None:
        entry = await store.get("n")
        while True:
            number, revision = (0, 0) if entry is None else (int(entry.value), entry.mod_revision)
            put = Put("n", b"%d" % (number + 1))
            result = await store.txn([Written("n", revision)], [put])
            if result.succeeded:
                return
            (entry,) = result.current

    await asyncio.gather(*(increment() for _ in range(8)))
    entry = await store.get("n")
    assert entry is not None
    assert entry.value == b"8"


async def test_watchers_see_the_changes_of_cancelled_callers(store: MetadataStore) -> None:
    start = (await store.range("")).revision + 1
    for number in range(10):
        task = asyncio.create_task(store.txn((), [Put(f"k{number}", b"")]))
        await asyncio.sleep(0)
        task.cancel()
    last = await store.txn((), [Put("end", b"")])
    expected = [entry.mod_revision for entry in (await store.range("")).entries]
    seen = await collect(store, "", start, len(expected))
    assert [changes.revision for changes in seen] == sorted(expected)
    assert last.revision in expected
