"""The fixtures of a cluster of three brokers on a real etcd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.etcd_fixtures import etcd_program, real_etcd

__all__ = ["etcd_program", "real_etcd"]


@pytest.fixture
def cluster(tmp_path: Path, real_etcd: Etcd, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers with keys of their own in etcd."""
    prefix = f"/{request.node.name}/"
    with Cluster(tmp_path, real_etcd, settings={"oncelog.etcd.prefix": prefix}) as cluster:
        yield cluster
