"""Proposals of an ISR are written if nothing has changed since the leader has made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from oncelog_server.cluster import records
from oncelog_server.cluster.batches import BATCH
from oncelog_server.cluster.isr_changes import Leader
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.store import (
    Compare,
    MetadataStore,
    Put,
    TxnResult,
    UnknownOutcome,
    Write,
    WriteOperation,
)
from oncelog_server.cluster.topics import NewTopic, create_topic
from oncelog_server.metadata.isr_writes import write_isr
from oncelog_server.replica.isr_changes import IsrOutcome, IsrProposal
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster

COUNT = BATCH + 5
COMMITTED, REFUSED, UNKNOWN = IsrOutcome


class Store:
    """The store of a cluster with the brokers 1, 2 and 3, and a topic that broker 1 leads."""

    def __init__(self) -> None:
        self.cluster = Cluster(range(1, 4))
        replicas = tuple((number, (1, 2, 3)) for number in range(COUNT))
        new = NewTopic("t", assignments=replicas)
        assert self.cluster.apply(
            create_topic(self.cluster.image, Settings(), new, self.cluster.new_id())[1]
        )
        self.leader = Leader(1, self.cluster.image.brokers[1].epoch)
        self.failures: list[OSError] = []
        self.sizes: list[int] = []
        # Partitions that another writer changes before the next transaction.
        self.touched: list[int] = []

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        self.sizes.append(len(operations))
        if self.failures:
            raise self.failures.pop()
        touched, self.touched = self.touched, []
        for number in touched:
            self.touch(number)
        return TxnResult(self.cluster.apply([Write(tuple(compare), tuple(operations))]), 0)

    def touch(self, number: int) -> None:
        """Write the record of a partition again."""
        topic = self.cluster.image.topics["t"]
        key = records.partition_key(topic.id_text, number)
        self.cluster.apply([Write((), (Put(key, self.cluster.entries[key].value),))])

    def proposal(
        self, number: int = 0, isr: tuple[int, ...] = (1, 2), joining: tuple[int, ...] = ()
    ) -> IsrProposal:
        partition = self.cluster.partition("t", number)
        brokers = self.cluster.image.brokers
        return IsrProposal(
            partition.topic_id,
            number,
            partition.leader_epoch,
            partition.partition_epoch,
            isr,
            tuple((id, brokers[id].epoch) for id in joining),
        )

    async def write(self, *proposals: IsrProposal) -> list[IsrOutcome]:
        return await write_isr(
            cast(MetadataStore, self), lambda: self.cluster.image, ElectionRules(), self.leader,
            proposals,
        )  # fmt: skip

    def isr(self, number: int = 0) -> tuple[int, ...]:
        return self.cluster.partition("t", number).isr


async def test_followers_leave_and_join() -> None:
    found = Store()
    assert await found.write(found.proposal()) == [COMMITTED]
    assert found.isr() == (1, 2)
    assert await found.write(found.proposal(0, (1, 2, 3), (3,))) == [COMMITTED]
    assert found.isr() == (1, 2, 3)


async def test_a_proposal_that_was_made_of_older_metadata_is_refused() -> None:
    found = Store()
    old = found.proposal()
    assert await found.write(found.proposal(0, (1,))) == [COMMITTED]
    assert await found.write(old) == [REFUSED]
    assert (found.isr(), len(found.sizes)) == ((1,), 1)


async def test_one_refused_proposal_does_not_refuse_the_others() -> None:
    found = Store()
    proposals = [found.proposal(number, (1,)) for number in range(COUNT)]
    found.touched = [3]
    outcomes = await found.write(*proposals)
    assert [number for number, outcome in enumerate(outcomes) if outcome is REFUSED] == [3]
    assert [found.isr(number) for number in (2, 3, COUNT - 1)] == [(1,), (1, 2, 3), (1,)]


async def test_a_leader_that_has_registered_again_changes_nothing() -> None:
    found = Store()
    proposal = found.proposal()
    found.cluster.restart(1)
    assert await found.write(proposal) == [REFUSED]


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        pytest.param(UnknownOutcome("no response"), UNKNOWN, id="the write may be applied"),
        pytest.param(OSError("refused"), REFUSED, id="nothing was written"),
    ],
)
async def test_an_error_of_the_store_is_unknown_only_if_the_write_may_be_applied(
    failure: OSError, outcome: IsrOutcome
) -> None:
    found = Store()
    found.failures.append(failure)
    assert await found.write(found.proposal()) == [outcome]
    assert await found.write(found.proposal()) == [COMMITTED]
