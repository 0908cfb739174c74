"""The fixture of one cluster of three oncelogs for all tests of a pytest process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.testing.broker import QUICK
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory, real_etcd: Etcd) -> Iterator[Cluster]:
    """Three oncelogs of one cluster for the whole session. Do not stop them in a test."""
    settings = {
        **QUICK,
        "oncelog.etcd.prefix": "/running/",
        # A broker that waits for a processor stays registered, and leads what it led.
        "broker.session.timeout.ms": "20000",
    }
    with Cluster(tmp_path_factory.mktemp("cluster"), real_etcd, settings=settings) as cluster:
        yield cluster
