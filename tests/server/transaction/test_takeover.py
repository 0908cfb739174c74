"""A transactional id that another principal takes over: the new instance gets a producer id of its
own principal, as after the last epoch (H49)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.fences import FenceCause
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.states import State
from tests.server.transaction.driver import P0, P1, Driver
from tests.server.transaction.grouped.driver import GroupDriver
from tests.server.transaction.world import A0, World, value_of

OK, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
FENCED, UNKNOWN = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING
ALICE = Client("a", "/10.0.0.1", "User:alice")
BOB = Client("b", "/10.0.0.2", "User:bob")
ANONYMOUS = Client("c", "/10.0.0.3")
LAST = LAST_PRODUCER_EPOCH


def ids(result: TransactionResult) -> tuple[int, int]:
    assert result.code is OK
    return result.producer_id, result.producer_epoch


def init(driver: Driver, caller: Client) -> tuple[int, int]:
    return ids(driver.init(caller=caller).value)


def test_h49_another_principal_gets_an_id_of_its_own_and_fences_the_producer() -> None:
    driver = Driver()
    alice = init(driver, ALICE)
    bob = init(driver, BOB)
    assert bob[0] != alice[0]
    assert bob[1] == 0
    assert driver.metadata.previous_producer_id == alice[0]
    assert [driver.owner_of_id(alice[0]), driver.owner_of_id(bob[0])] == ["User:alice", "User:bob"]
    assert driver.add(*alice, P0).value.code is FENCED
    assert driver.end(*alice, committed=True).value.code is FENCED
    assert driver.init(*alice, caller=ALICE).value.code is FENCED
    (fence,) = driver.live.fences
    assert (fence.cause, fence.owner, fence.by) == (FenceCause.NEWER_INSTANCE, ALICE, BOB)
    assert fence.refusals == 3
    assert driver.add(*bob, P0).value.code is OK


@pytest.mark.parametrize("producer_id", [-1, 5])
def test_h49_only_the_producer_before_a_takeover_is_fenced(producer_id: int) -> None:
    """Every other id is unknown to the transactional id, as without a takeover."""
    driver = Driver()
    init(driver, ALICE)
    for _ in range(2):
        assert driver.add(producer_id, 0, P0).value.code is UNKNOWN
        assert driver.end(producer_id, 0, committed=True).value.code is UNKNOWN
        init(driver, BOB)


def test_h49_the_same_principal_gets_the_next_epoch() -> None:
    driver = Driver()
    producer_id, _ = init(driver, ALICE)
    assert init(driver, ALICE) == (producer_id, 1)
    assert ids(driver.init(producer_id, 1, caller=ALICE).value) == (producer_id, 2)


def test_h49_an_id_of_every_principal_is_replaced_when_a_principal_takes_it_over() -> None:
    """An older release, or User:ANONYMOUS, has assigned the id."""
    driver = Driver()
    old = init(driver, ANONYMOUS)
    # The producer itself continues with its id, under any principal.
    assert ids(driver.init(*old, caller=ALICE).value) == (old[0], 1)
    alice = init(driver, ALICE)
    assert alice == (old[0] + 1, 0)
    assert driver.owner_of_id(alice[0]) == "User:alice"
    anonymous = init(driver, ANONYMOUS)
    assert anonymous[0] != alice[0]
    assert driver.owner_of_id(anonymous[0]) == ""
    assert init(driver, ANONYMOUS) == (anonymous[0], 1)


@pytest.mark.parametrize("crashes", [False, True])
def test_h49_an_open_transaction_is_aborted_before_another_principal_takes_over(
    crashes: bool,
) -> None:
    driver = Driver(finishes=False)
    alice = init(driver, ALICE)
    driver.add(*alice, P0, P1)
    assert driver.init(caller=BOB).value.code is BUSY
    if crashes:
        driver.crash()
    driver.finish("t")
    # The markers have the id of the transaction, so they fence its producer in each partition.
    assert {(work.producer_id, work.producer_epoch) for work, _ in driver.markers} == {
        (alice[0], alice[1] + 1)
    }
    bob = init(driver, BOB)
    assert (bob[0] != alice[0], bob[1]) == (True, 0)
    assert driver.end(*alice, committed=True).value.code is FENCED
    assert driver.state is State.EMPTY


def test_h49_each_principal_in_turn_gets_an_id_that_was_never_used() -> None:
    driver = Driver()
    producers = [init(driver, caller) for caller in (ALICE, BOB, ALICE, BOB)]
    assert len({producer_id for producer_id, _ in producers}) == 4


@pytest.mark.parametrize("bumps_epoch", [False, True])
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("crashes", [False, True])
def test_h49_another_principal_keeps_a_prepared_transaction_and_ends_it(
    crashes: bool, committed: bool, bumps_epoch: bool
) -> None:
    """The participant recovers with another user (KIP-939). It gets a producer id of its own to end
    the transaction; the markers have the id of the transaction."""
    driver = Driver()
    alice = ids(driver.init(two_phase=True, caller=ALICE).value)
    driver.add(*alice, P0, P1)
    kept = driver.init(two_phase=True, keep=True, caller=BOB).value
    assert (kept.ongoing_producer_id, kept.ongoing_producer_epoch) == alice
    bob = ids(kept)
    assert (driver.owner_of_id(bob[0]), bob[1]) == ("User:bob", 0)
    if crashes:
        driver.crash()
    assert driver.state is State.ONGOING
    assert driver.end(*alice, committed=committed).value.code is FENCED
    ended = driver.end(*bob, committed=committed, bumps_epoch=bumps_epoch).value
    assert ended.code is OK
    assert {
        (work.producer_id, work.producer_epoch, work.committed) for work, _ in driver.markers
    } == {(alice[0], alice[1] + 1, committed)}
    following = (ended.producer_id, ended.producer_epoch) if bumps_epoch else bob
    assert following[0] == bob[0]
    assert driver.add(*following, P0).value.code is OK


def test_h49_a_kept_transaction_passes_from_principal_to_principal() -> None:
    driver = Driver()
    alice = ids(driver.init(two_phase=True, caller=ALICE).value)
    driver.add(*alice, P0)
    bob = ids(driver.init(two_phase=True, keep=True, caller=BOB).value)
    # A retry of the same principal gets the next epoch of its id.
    assert ids(driver.init(two_phase=True, keep=True, caller=BOB).value) == (bob[0], 1)
    again = ids(driver.init(two_phase=True, keep=True, caller=ALICE).value)
    assert again[0] not in (alice[0], bob[0])
    assert driver.owner_of_id(again[0]) == "User:alice"
    assert driver.end(bob[0], 1, committed=True).value.code is not OK
    assert driver.end(*again, committed=True).value.code is OK


def test_h49_the_id_after_the_last_epoch_has_the_principal_of_the_caller() -> None:
    driver = Driver()
    driver.put(State.EMPTY, producer_id=77, producer_epoch=LAST, last_producer_epoch=LAST - 1)
    driver.owners[77] = "User:alice"
    rotated = ids(driver.init(77, LAST, caller=ALICE).value)
    assert (driver.owner_of_id(rotated[0]), rotated[1]) == ("User:alice", 0)


# --- the coordinator: the id that replaces an id after its last epoch has the same principal


def at_the_last_epoch(world: World, transactional_id: str = "t") -> tuple[int, int]:
    """Return a producer of ALICE with an open transaction in its last epoch."""
    producer_id, _ = world.producer(transactional_id, caller=ALICE)
    live = world.transactions.find(transactional_id)
    live.metadata = replace(live.metadata, producer_epoch=LAST)
    producer = producer_id, LAST
    value_of(world.add(producer, A0, transactional_id=transactional_id))
    return producer


def test_h49_an_end_txn_at_the_last_epoch_gives_the_producer_an_id_of_its_principal() -> None:
    world = World()
    ended = value_of(world.end(at_the_last_epoch(world), True))
    assert ended.code is OK
    assert world.owners[ended.producer_id] == "User:alice"


def test_h49_a_timeout_at_the_last_epoch_assigns_an_id_of_the_same_principal() -> None:
    world = World()
    at_the_last_epoch(world)
    world.settle(60_000)
    assert world.transactions.abort_overdue(100) == ["t"]
    metadata = world.transactions.find("t").metadata
    assert (metadata.producer_epoch, world.owners[metadata.producer_id]) == (0, "User:alice")


# --- producers of a consumer group (KIP-447, early draft)


def test_h49_another_principal_takes_a_member_of_a_group_over() -> None:
    driver = GroupDriver()
    parent, member = (driver.member(name, 1, caller=ALICE) for name in ("parent", "member"))
    driver.begin(parent, P0)
    driver.begin(member, P1)
    assert driver.join("member", 1, caller=BOB).value.code is BUSY
    taken = driver.member("member", 1, caller=BOB)
    assert (driver.owner_of_id(taken.producer_id), taken.producer_epoch) == ("User:bob", 0)
    refused = driver.commit_group(parent, member).value
    assert (refused.code, refused.refused_member) == (FENCED, "member")
    driver.begin(taken, P1)
    assert driver.commit_group(parent, taken).value.code is OK


def test_h49_members_of_a_group_commit_keep_their_principals_after_the_last_epoch() -> None:
    driver = GroupDriver()
    parent, member = driver.member("parent", 1), driver.member("member", 1, caller=ALICE)
    live = driver.live_of("member")
    live.metadata = replace(live.metadata, producer_epoch=LAST)
    member = member._replace(producer_epoch=LAST)
    driver.begin(parent, P0)
    driver.begin(member, P1)
    assert driver.commit_group(parent, member).value.code is OK
    metadata = driver.live_of("member").metadata
    assert (driver.owner_of_id(metadata.producer_id), metadata.producer_epoch) == ("User:alice", 0)
