"""The fixtures of clusters of three brokers on a real etcd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.secured import SecuredCluster, secured_etcd
from tests.harness.certificates import Certificates
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.etcd_fixtures import etcd_program, real_etcd

__all__ = ["etcd_program", "real_etcd"]

# Longer than a broker waits for a processor: a broker that is not stopped stays registered. A
# killed one is noticed without its session.
SESSION_MS: Final = 12_000


@pytest.fixture
def cluster(tmp_path: Path, real_etcd: Etcd, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers with keys of their own in etcd. A file that waits for the end of a session has
    a shorter one, SESSION_MS."""
    session_ms = getattr(request.module, "SESSION_MS", SESSION_MS)
    settings = {
        "oncelog.etcd.prefix": f"/{request.node.name}/",
        "broker.session.timeout.ms": str(session_ms),
    }
    with Cluster(tmp_path, real_etcd, settings=settings) as cluster:
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
