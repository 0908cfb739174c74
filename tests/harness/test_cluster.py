"""A cluster of the harness leaves no process behind if one of its brokers does not start."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.harness.broker import Oncelog
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd

REFUSED = 3


class HalfStarted(Cluster):
    """A cluster with one broker that refuses its settings."""

    def new_broker(self, directory: Path, settings: Mapping[str, str]) -> Oncelog:
        own = {"num.partitions": "none"} if settings["node.id"] == str(REFUSED) else {}
        return super().new_broker(directory, {**settings, **own})


def is_listening(broker: Oncelog) -> bool:
    try:
        socket.create_connection((broker.host, broker.port), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


def test_the_brokers_of_a_cluster_that_does_not_start_are_ended(
    tmp_path: Path, real_etcd: Etcd
) -> None:
    cluster = HalfStarted(tmp_path, real_etcd, settings={"oncelog.etcd.prefix": "/half-started/"})
    with pytest.raises(Exception, match=r"num\.partitions"), cluster:
        pytest.fail("the cluster has started")
    others = [broker for broker_id, broker in cluster.brokers.items() if broker_id != REFUSED]
    assert len(others) == 2
    for broker in others:
        assert "listening" in broker.said(), "it had started"
        assert not broker.is_running
        assert not is_listening(broker)
