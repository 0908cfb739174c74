"""Pytest fixtures of a real etcd. Without its program the tests skip, or fail on CI."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.debian import DebianUnavailable
from tests.harness.etcd import Etcd, program


@pytest.fixture(scope="session")
def etcd_program() -> str:
    """Return the path of etcd."""
    try:
        return program()
    except DebianUnavailable as reason:
        pytest.skip(f"etcd cannot be run: {reason}")


@pytest.fixture(scope="session")
def real_etcd(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One etcd of one member for the whole session. Each test uses keys of its own. A test may
    compact, but not stop it."""
    with Etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd
