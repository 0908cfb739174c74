"""The principals of producer ids: blocks in the metadata store, and the image that shows their
owners (H49)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.producer_id_owners import ProducerIdOwners
from oncelog_server.cluster.producer_ids import BLOCK_SIZE, ProducerIdBlock, next_block
from oncelog_server.cluster.store import Changes, Entry, Event, Put, Snapshot
from oncelog_server.refusal import Refused
from oncelog_server.salvage.planning.known import Known, KnownRecords
from oncelog_server.security.resources import ANONYMOUS, Principal

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")


class Store:
    """The keys of a metadata store, written without conditions."""

    def __init__(self, next_producer_id: int | None = None) -> None:
        self.entries: dict[str, Entry] = {}
        self.revision = 0
        self.image = ClusterImage()
        if next_producer_id is not None:
            record = records.ProducerIdsRecord(next_producer_id)
            self._write([Put(records.PRODUCER_IDS, records.encode(record))])

    def _write(self, puts: list[Put]) -> None:
        self.revision += 1
        events = []
        for put in puts:
            entry = Entry(put.key, put.value, self.revision, self.revision)
            self.entries[put.key] = entry
            events.append(Event(put.key, entry))
        self.image = self.image.advance([Changes(self.revision, tuple(events))])

    def take(self, principal: str = "") -> ProducerIdBlock:
        block, write = next_block(self.entries.get(records.PRODUCER_IDS), principal)
        self._write([put for put in write.operations if isinstance(put, Put)])
        return block

    def restarted(self) -> ClusterImage:
        return ClusterImage.of(Snapshot(self.revision, tuple(self.entries.values())))


def owners_of(image: ClusterImage, **settings: Any) -> ProducerIdOwners:
    owners = ProducerIdOwners(**settings)
    owners.follow(image.producer_id_owners)
    return owners


def request_of(principal: Principal, api: ApiKey = ApiKey.PRODUCE) -> Any:
    session = SimpleNamespace(principal=principal, host="10.0.0.1", listener="SASL_SSL")
    return SimpleNamespace(session=session, api_key=api)


PRINCIPALS = st.sampled_from(["", "User:alice", "User:bob", "User:CN=c,OU=d:e"])


@given(first=st.integers(0, 5_000) | st.none(), takers=st.lists(PRINCIPALS, max_size=12))
def test_h49_each_id_belongs_to_the_principal_that_took_its_block(
    first: int | None, takers: list[str]
) -> None:
    """`first`: the next producer id in the store at the beginning. An import may have set it to any
    number."""
    store = Store(first)
    blocks = [store.take(principal) for principal in takers]
    ends = [first or 0, *(block.end for block in blocks)]
    assert all(block.first >= end for block, end in zip(blocks, ends, strict=False))
    owners = owners_of(store.image)
    for block, principal in zip(blocks, takers, strict=True):
        for producer_id in (block.first, block.first + 1, block.end - 1):
            assert owners.owner_of(producer_id) == principal
    assert owners.owner_of((first or 0) - 1) == ""
    assert owners.owner_of(ends[-1] + BLOCK_SIZE) == ""
    assert store.restarted().producer_id_owners == store.image.producer_id_owners


def test_h49_a_block_of_every_principal_writes_what_an_older_release_has_written() -> None:
    store = Store()
    assert store.take() == ProducerIdBlock(0, BLOCK_SIZE)
    assert set(store.entries) == {records.PRODUCER_IDS}
    assert store.image.producer_id_owners == {}


def test_h49_ids_of_an_older_release_belong_to_every_principal() -> None:
    store = Store(2_500)
    assert store.take("User:alice").first == 3_000
    owners = owners_of(store.restarted())
    assert [owners.owner_of(id_) for id_ in (0, 2_499, 2_999, 3_000)] == ["", "", "", "User:alice"]


def test_h49_only_its_principal_may_use_an_id() -> None:
    store = Store()
    shared, own = store.take().first, store.take("User:alice").first
    owners = owners_of(store.image)
    assert owners.may_use(request_of(ALICE), own)
    for another in (BOB, ANONYMOUS, Principal("Group", "alice"), Principal("User", "Alice")):
        assert not owners.may_use(request_of(another), own)
        with pytest.raises(Refused) as refused:
            owners.require(request_of(another), own + 1)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for principal in (ALICE, BOB, ANONYMOUS):
        for free in (shared, -1, own + 50 * BLOCK_SIZE):
            owners.require(request_of(principal), free)


def test_h49_requests_with_the_id_of_another_principal_are_logged_within_bounds() -> None:
    store = Store()
    own = store.take("User:alice").first
    now_ms = [0]
    logged: list[dict[str, Any]] = []
    owners = owners_of(
        store.image,
        log=lambda **fields: logged.append(fields),
        monotonic_ms=lambda: now_ms[0],
    )
    for number in range(100):
        owners.may_use(request_of(BOB, ApiKey.END_TXN), own + number)
    expected = {
        "count": 1, "principal": "User:bob", "host": "10.0.0.1", "listener": "SASL_SSL",
        "api": "EndTxn", "producer_id": own, "owner": "User:alice",
    }  # fmt: skip
    assert logged == [expected]
    now_ms[0] = 60_000
    owners.may_use(request_of(BOB), own)
    # The other 99 ids have a common event, without the fields that differ.
    assert (logged[1]["count"], logged[1]["api"]) == (99, "EndTxn")
    assert "producer_id" not in logged[1]
    assert (logged[2]["count"], logged[2]["api"]) == (1, "Produce")


def test_h49_a_recovery_of_the_metadata_keeps_the_owners() -> None:
    store = Store()
    store.take("User:alice")
    snapshot = Snapshot(store.revision, tuple(store.entries.values()))
    kept = KnownRecords(Known(snapshot, True, "the store")).others
    assert set(kept) == {records.producer_id_block_key(0)}


def test_the_owners_are_another_mapping_after_each_change_only() -> None:
    store = Store()
    before = store.image.producer_id_owners
    store.take()
    assert store.image.producer_id_owners is before
    store.take("User:alice")
    assert store.image.producer_id_owners is not before
    assert before == {}
