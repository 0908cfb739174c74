"""The quotas of an image keep what clients have used, as long as the quotas are defined."""

from __future__ import annotations

from oncelog_server.quotas.definitions import Definitions
from oncelog_server.quotas.entities import Quota, entity_of
from oncelog_server.quotas.windows import Windows

WINDOWS = Windows(11, 1_000)
ALICE = entity_of([("user", "alice")])


def test_a_quota_stays_the_same_object_until_no_client_has_one() -> None:
    first = Definitions({ALICE: {Quota.PRODUCE: 100.0}}, WINDOWS)
    produce = first.produce(None)
    assert produce is not None
    changed = Definitions({ALICE: {Quota.PRODUCE: 50.0}}, WINDOWS)
    assert changed.produce(produce) is produce
    assert Definitions({}, WINDOWS).produce(produce) is None


def test_each_quota_has_only_its_own_definitions() -> None:
    only_fetch = Definitions({ALICE: {Quota.FETCH: 100.0}}, WINDOWS)
    assert only_fetch.fetch(None) is not None
    assert only_fetch.produce(None) is None
    assert only_fetch.request(None) is None
    assert only_fetch.addresses(None) is None
    assert only_fetch.mutation(None, WINDOWS, lambda: 0) is None
