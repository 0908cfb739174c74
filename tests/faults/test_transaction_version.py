"""The cluster's transaction.version changes from 2 to 0 and back, and each time the broker dies
during transactions (V2m). No request changes the version yet, so the test changes its record in the
metadata store while the broker is down."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.features import TRANSACTION_VERSION
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_server.cluster import records
from oncelog_server.cluster.store import Put
from oncelog_server.metadata.sqlite_store import SqliteStore
from oncelog_server.storage.layout import METADATA_FILE
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, end_offset, last_stable_offset, values
from tests.harness.transacting import add_partitions
from tests.harness.waiting import wait_until
from tests.harness.writing import Identity, batch, end_transaction, new_identity, produce

# By kind of client (1: transactions V1, 2: transactions V2), the newest versions of Produce and
# EndTxn that it sends, and the partition of its open transaction. Partition DECIDED is for decided
# transactions.
PRODUCE = {1: 11, 2: 12}
END_TXN = {1: 4, 2: 5}
DECIDED, OPEN = 0, {1: 1, 2: 2}


def set_version(broker: Oncelog, level: int) -> None:
    """Set the version of the cluster while the broker is down."""

    async def write() -> None:
        store = await SqliteStore.open(broker.data / METADATA_FILE)
        features = records.FeaturesRecord({TRANSACTION_VERSION: level})
        await store.txn([], [Put(records.FEATURES, records.encode(features))])
        await store.close()

    asyncio.run(write())


def version(wire: Wire) -> int:
    """Return the level in the ApiVersions response, which omits level 0."""
    features = wire.call(ApiVersionsRequest("faults", "1"), 4).finalized_features
    levels: dict[str, int] = {feature.name: feature.max_version_level for feature in features}
    return levels.get(TRANSACTION_VERSION, 0)


def write(wire: Wire, kind: int, producer: Identity, sequence: int, partition: int) -> None:
    """Write one record, with the requests of a client of this kind (see PRODUCE)."""
    if kind == 1:
        assert add_partitions(wire, producer, ("t", partition)) == [ErrorCode.NONE]
    value = b"%d of %s" % (sequence, (producer.transactional_id or "").encode())
    data = batch(producer, sequence, value=value)
    sent = produce(wire, "t", data, producer=producer, partition=partition, version=PRODUCE[kind])
    assert sent.error_code == ErrorCode.NONE, ErrorCode(sent.error_code)


def decide(broker: Oncelog, wire: Wire, kind: int, name: str, *, commit: bool) -> Identity:
    """Decide a transaction. The broker dies before it writes a marker."""
    producer = new_identity(wire, name)
    write(wire, kind, producer, 0, DECIDED)
    with pytest.raises((Closed, ConnectionResetError)):
        end_transaction(wire, producer, commit=commit, version=END_TXN[kind])
    assert broker.wait_for_death() == -9
    return producer


def is_decided(wire: Wire, partition: int) -> bool:
    return last_stable_offset(wire, "t", partition) == end_offset(wire, "t", partition)


def check_decided(wire: Wire, kind: int, producer: Identity, *, commit: bool) -> None:
    """Check that the next process completes the transaction and that a retry gets the same
    result."""
    wait_until(partial(is_decided, wire, DECIDED), "the decided transaction has its markers")
    again = end_transaction(wire, producer, commit=commit, version=END_TXN[kind])
    assert again.error_code == ErrorCode.NONE
    if kind == 2:
        assert again.producer_epoch == producer.producer_epoch + 1


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("kinds", [(1, 2), (2, 1)], ids=["V1 first", "V2 first"])
def test_v2m_transactions_continue_when_transaction_version_changes_to_0_and_back(
    tmp_path: Path, kinds: tuple[int, int], commit: bool
) -> None:
    """An open transaction stays open for its client, the broker completes a decided transaction,
    and no record is duplicated."""
    broker = Oncelog(tmp_path, QUICK)
    broker.fail_at("before-marker")
    broker.start()
    opened: dict[int, Identity] = {}
    with Wire(broker.address) as wire:
        create(wire, "t", partitions=3)
        for kind, place in OPEN.items():
            # Five starts of the broker follow.
            opened[kind] = new_identity(wire, f"open {kind}", timeout_ms=600_000)
            write(wire, kind, opened[kind], 0, place)
        decided = decide(broker, wire, kinds[0], "first", commit=commit)
    for sequence, (level, kind) in enumerate(zip((0, 2), kinds, strict=True), 1):
        set_version(broker, level)
        broker.fail_at(None)
        broker.start()
        with Wire(broker.address) as wire:
            assert version(wire) == level
            check_decided(wire, kind, decided, commit=commit)
            for name, place in OPEN.items():
                assert last_stable_offset(wire, "t", place) == 0
                write(wire, name, opened[name], sequence, place)
        broker.kill()
        if level == 0:
            broker.fail_at("before-marker")
            broker.start()
            with Wire(broker.address) as wire:
                decided = decide(broker, wire, kinds[1], "second", commit=commit)
    broker.start()
    with Wire(broker.address) as wire:
        expected = [b"0 of first", b"0 of second"] if commit else []
        assert values(wire, "t", partition=DECIDED) == expected
        for kind, place in OPEN.items():
            version_of_end = END_TXN[kind]
            ended = end_transaction(wire, opened[kind], commit=commit, version=version_of_end)
            assert ended.error_code == ErrorCode.NONE
            wait_until(partial(is_decided, wire, place), "the transaction is over")
            expected = [b"%d of open %d" % (number, kind) for number in range(3)]
            assert values(wire, "t", partition=place) == (expected if commit else [])
    broker.stop()
