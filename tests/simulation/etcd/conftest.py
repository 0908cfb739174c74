"""The simulated and the real etcd, as a parameter."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.etcd import Etcd
from tests.harness.etcd_gateway import connected
from tests.simulation.etcd.server import SimEtcd
from tests.simulation.etcd.subject import Subject


@pytest.fixture(params=["simulated", "real"])
async def etcd(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    """One member, shared by the tests of the session if it is a real one."""
    simulated = SimEtcd() if request.param == "simulated" else None
    if simulated is not None:
        await simulated.start()
        address = simulated.endpoints[0]
    else:
        real: Etcd = request.getfixturevalue("real_etcd")
        address = real.endpoints[0]
    async with connected(address) as connection:
        yield Subject(address, connection, simulated)
    if simulated is not None:
        simulated.close()
