"""Two attempts of a batch never share a transactional id. An attempt of an older batch takes no id
in use."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.spark.sink.protocol.ids import ProcessIds, generation_of
from oncelog_client.spark.sink.protocol.messages import CommitKind, Plan
from oncelog_client.values import TransactionMember

PLAN = Plan("orders", CommitKind.GROUP, 3, TransactionMember("orders", 1, 0), "q", 0)

# The batch numbers of the attempts that one process gets, in order. Spark plans a batch after the
# batches before it, but late attempts may come at any time.
ORDERS = st.lists(st.integers(0, 4), max_size=30)


def taken(ids: ProcessIds, plan: Plan) -> tuple[ProcessIds, str]:
    return ids.take(plan)


@given(ORDERS)
def test_two_attempts_share_an_id_only_if_the_second_is_of_a_newer_batch(order: list[int]) -> None:
    ids = ProcessIds("p")
    last_of: dict[str, int] = {}
    newest = -1
    for batch in order:
        ids, name = ids.take(replace(PLAN, done=batch))
        assert name not in last_of or last_of[name] < batch
        # A late attempt takes no id that a newer batch may be using.
        assert batch >= newest or name not in last_of
        last_of[name] = batch
        newest = max(newest, batch)


def test_later_batches_reuse_the_ids_of_earlier_batches() -> None:
    ids, names = ProcessIds("p"), set()
    for batch in range(100):
        for _ in range(3):
            ids, name = ids.take(replace(PLAN, done=batch))
            names.add(name)
    assert names == {f"orders/3/p.{number}" for number in range(3)}


def test_a_new_generation_has_its_own_ids() -> None:
    ids, first = ProcessIds("p").take(PLAN)
    _, second = ids.take(replace(PLAN, generation=4))
    assert (first, second) == ("orders/3/p.0", "orders/4/p.0")


def test_the_generation_is_read_only_from_ids_of_this_sink() -> None:
    for name, found in {
        "orders/3/p.0": 3,
        "orders/12/p.late-1": 12,
        "orders": None,
        "orders/3": None,
        "orders/x/p.0": None,
        # An id of the sink "orders/3".
        "orders/3/4/p.0": None,
        "invoices/3/p.0": None,
    }.items():
        assert generation_of("orders", name) == found, name
    assert generation_of("orders/3", "orders/3/4/p.0") == 4
