"""The fixtures of clusters of three brokers on a real etcd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.secured import SecuredCluster, secured_etcd
from tests.harness.certificates import Certificates
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


@pytest.fixture
def secured_cluster(etcd_program: str, tmp_path: Path) -> Iterator[SecuredCluster]:
    """Three brokers on an etcd of their own, with security on all connections."""
    certificates = Certificates(tmp_path)
    with (
        secured_etcd(tmp_path / "etcd", certificates) as etcd,
        SecuredCluster(tmp_path, etcd, certificates) as cluster,
    ):
        yield cluster
