"""Every MetadataStore deletes the keys of an ended lease, at one revision."""

from __future__ import annotations

import pytest

from oncelog_server.cluster.store import (
    Changes,
    Delete,
    Entry,
    Event,
    LeaseEnded,
    MetadataStore,
    Put,
    TxnResult,
    Written,
)
from tests.server.metadata.collected import collect

TTL_MS = 60_000


async def keys(store: MetadataStore) -> list[str]:
    return [entry.key for entry in (await store.range("")).entries]


async def test_the_end_of_a_lease_deletes_its_keys_at_one_revision(store: MetadataStore) -> None:
    lease = await store.lease(TTL_MS)
    other = await store.lease(TTL_MS)
    assert lease.id != other.id
    await store.txn(
        (),
        [
            Put("mine/b", b"", lease.id),
            Put("theirs", b"", other.id),
            Put("free", b""),
            Put("mine/a", b"", lease.id),
        ],
    )
    last = await store.txn((), [Put("free", b"")])
    await lease.revoke()
    assert await keys(store) == ["free", "theirs"]
    (changes,) = await collect(store, "", last.revision + 1, 1)
    assert changes == Changes(last.revision + 1, (Event("mine/a", None), Event("mine/b", None)))
    await other.revoke()
    assert await keys(store) == ["free"]


async def test_a_lease_has_the_granted_ttl_and_each_renewal_returns_it(
    store: MetadataStore,
) -> None:
    lease = await store.lease(TTL_MS)
    # The leases of a store inside the process end with the process.
    assert lease.ttl_ms in {0, TTL_MS}
    assert await lease.keep_alive() == lease.ttl_ms
    assert await lease.keep_alive() == lease.ttl_ms
    await lease.revoke()


async def test_a_renewal_of_an_ended_lease_raises_lease_ended(store: MetadataStore) -> None:
    lease = await store.lease(TTL_MS)
    await store.txn((), [Put("a", b"", lease.id)])
    await lease.revoke()
    for _ in range(2):
        with pytest.raises(LeaseEnded):
            await lease.keep_alive()
    assert await keys(store) == []


async def test_a_lease_is_ended_by_its_id(store: MetadataStore) -> None:
    """A broker ends the lease of its former process, or of a broker that is dead."""
    lease = await store.lease(TTL_MS)
    await store.txn((), [Put("a", b"", lease.id)])
    await store.revoke_lease(lease.id)
    assert await keys(store) == []
    with pytest.raises(LeaseEnded):
        await lease.keep_alive()


async def test_the_end_of_an_ended_or_unknown_lease_changes_nothing(store: MetadataStore) -> None:
    lease = await store.lease(TTL_MS)
    await store.txn((), [Put("a", b"", lease.id)])
    await lease.revoke()
    last = await store.txn((), [Put("b", b"")])
    await lease.revoke()
    await store.revoke_lease(lease.id)
    await store.revoke_lease(2**62)
    assert await keys(store) == ["b"]
    assert (await store.range("")).revision == last.revision


async def test_the_end_of_a_lease_without_keys_makes_no_revision(store: MetadataStore) -> None:
    before = (await store.txn((), [Put("a", b"")])).revision
    lease = await store.lease(TTL_MS)
    await lease.revoke()
    assert (await store.range("")).revision == before


async def test_a_put_with_an_ended_lease_changes_nothing(store: MetadataStore) -> None:
    lease = await store.lease(TTL_MS)
    await store.txn((), [Put("a", b"1")])
    await store.revoke_lease(lease.id)
    before = await store.range("")
    with pytest.raises(LeaseEnded):
        await store.txn((), [Put("a", b"2"), Put("b", b"", lease.id)])
    assert await store.range("") == before


async def test_a_failed_condition_comes_before_an_ended_lease(store: MetadataStore) -> None:
    lease = await store.lease(TTL_MS)
    await lease.revoke()
    result = await store.txn([Written("a", 7)], [Put("a", b"", lease.id)])
    assert result == TxnResult(False, 0, (None,))


async def test_a_put_without_a_lease_detaches_the_key_and_keeps_its_create_revision(
    store: MetadataStore,
) -> None:
    lease = await store.lease(TTL_MS)
    first = await store.txn((), [Put("a", b"1", lease.id)])
    second = await store.txn((), [Put("a", b"2")])
    await store.revoke_lease(lease.id)
    assert await store.get("a") == Entry("a", b"2", first.revision, second.revision)


async def test_a_put_with_the_lease_again_keeps_the_key_attached(store: MetadataStore) -> None:
    lease = await store.lease(TTL_MS)
    first = await store.txn((), [Put("a", b"1", lease.id)])
    second = await store.txn((), [Put("a", b"2", lease.id)])
    assert await store.get("a") == Entry("a", b"2", first.revision, second.revision)
    await lease.revoke()
    assert await store.get("a") is None


async def test_a_put_moves_a_key_from_one_lease_to_another(store: MetadataStore) -> None:
    old = await store.lease(TTL_MS)
    new = await store.lease(TTL_MS)
    await store.txn((), [Put("a", b"1", old.id)])
    await store.txn((), [Put("a", b"2", new.id)])
    await old.revoke()
    assert await keys(store) == ["a"]
    await new.revoke()
    assert await keys(store) == []


async def test_a_deleted_key_is_no_longer_attached(store: MetadataStore) -> None:
    lease = await store.lease(TTL_MS)
    await store.txn((), [Put("a", b"1", lease.id), Put("b", b"1", lease.id)])
    await store.txn((), [Delete("a")])
    await store.txn((), [Put("a", b"2")])
    await lease.revoke()
    assert await keys(store) == ["a"]


async def test_a_lease_may_have_more_keys_than_a_transaction(store: MetadataStore) -> None:
    lease = await store.lease(TTL_MS)
    names = [f"k{number:03}" for number in range(200)]
    for half in (names[:100], names[100:]):
        last = await store.txn((), [Put(name, b"", lease.id) for name in half])
    await lease.revoke()
    (changes,) = await collect(store, "", last.revision + 1, 1)
    assert changes.events == tuple(Event(name, None) for name in names)
    assert await keys(store) == []
