"""Clients cannot fill the memory with client ids, although each has a quota of its own."""

from __future__ import annotations

import pytest

from oncelog_server.quotas.entities import Quota, entity_of
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.quotas.usage import MAX_CLIENTS
from tests.server.resident import resident_growth

LIMIT_BYTES = 64 << 20
IDS = 5 * MAX_CLIENTS
SECONDS = 12
EACH_CLIENT = entity_of([("user", None), ("client-id", None)])
QUOTAS: dict[str, float] = {
    Quota.PRODUCE: 1e6,
    Quota.FETCH: 1e6,
    Quota.REQUEST: 50.0,
    Quota.MUTATION: 5.0,
}


def all_kinds_of_meters() -> QuotaGate:
    """Return quotas after the requests of IDS clients. The last clients fill all their
    samples."""
    now_ms = 10_000_000
    gate = QuotaGate(lambda: now_ms)
    gate.follow({EACH_CLIENT: QUOTAS})
    rounds = [range(IDS), *([range(IDS, IDS + MAX_CLIENTS // 2)] * SECONDS)]
    rounds += [range(IDS * 2, IDS * 2 + MAX_CLIENTS // 2)] * SECONDS
    for numbers in rounds:
        now_ms += 1000
        for number in numbers:
            client_id = f"a-client-id-of-the-usual-length-{number:09}"
            gate.after_produce("some-user", client_id, 1000, now_ms)
            gate.after_fetch("some-user", client_id, 1000, 0, now_ms)
            gate.after_request("some-user", client_id, 1000, now_ms)
            gate.permits("some-user", client_id, is_strict=True)
    return gate


@pytest.mark.slow
@pytest.mark.process
def test_the_use_of_all_quotas_takes_less_than_64_mib() -> None:
    grown = resident_growth(all_kinds_of_meters)
    assert grown < LIMIT_BYTES, f"{grown >> 20} MiB"
