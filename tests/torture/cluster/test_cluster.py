"""A short run: nothing is lost or duplicated on a cluster while brokers, etcd and the network fail.
`make torture CLUSTER=1` runs longer, and with Java's producers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.etcd_fixtures import etcd_program
from tests.torture.cluster.run import ClusterTorture

__all__ = ["etcd_program"]

SEED = 20_260_101
# One fault for each part of the network and each kind of process, and one that lasts three
# sessions.
KINDS = (
    "kill -9 of a broker",
    "cut between two brokers",
    "SIGSTOP of a broker for three sessions",
    "kill -9 of a broker and the leader of etcd",
    "cut of a broker from brokers and etcd",
    "cut between a broker and all clients",
)


@pytest.mark.usefixtures("etcd_program")
def test_nothing_is_lost_or_doubled_while_brokers_etcd_and_network_fail(tmp_path: Path) -> None:
    """The audit covers every kind of client: two copy loops in transactions, and producers with
    acks=all."""
    said: list[str] = []
    torture = ClusterTorture(tmp_path, SEED, len(KINDS), False, said.append, kinds=KINDS)
    outcome = torture.run()
    assert outcome.verdict.is_clean, (outcome.verdict.violations, said)
    assert [*outcome.verdict.kinds] == [*KINDS]
    assert outcome.partitions > 40
    for row in outcome.rows:
        assert row.acknowledged > 20, (row, said)
