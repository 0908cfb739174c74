"""A transactional id moves between its own shard and the shards of groups on other brokers. It has
one owner at every moment, even if any call is lost and any shard moves (KIP-447, early draft)."""

from __future__ import annotations

from random import Random

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.routing import partition_for
from oncelog_server.deferred import Deferred
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.remote.claims import decide_departure_from
from oncelog_server.transaction.results import TransactionResult
from tests.server.storage.memory_files import MemoryFiles
from tests.server.transaction.remote.brokers import SHARDS, Answer, Brokers
from tests.server.transaction.world import A0, World, value_of

NONE, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
FENCED = ErrorCode.PRODUCER_FENCED
IN0 = TopicPartition("in", 0)


def name_in(shard: int, prefix: str = "n") -> str:
    """Return a name of this shard, as a transactional id and as a group."""
    names = (f"{prefix}-{number}" for number in range(999))
    return next(name for name in names if partition_for(name, SHARDS) == shard)


# The leaders of these shards are three different brokers.
ID, G, H = name_in(0), name_in(1), name_in(2)


def ask(cluster: Brokers, group_id: str | None, name: str = ID) -> Answer:
    """Send InitProducerId, without waiting for the calls that it causes. A refused request has the
    response with its code."""
    command = InitProducerId(name, 60_000)
    group = None if group_id is None else GroupAssignment(group_id, 1, frozenset({IN0}))
    coordinator = cluster.coordinator(name if group_id is None else group_id)
    try:
        return coordinator.transactions.init_producer_id(command, group)
    except Refused as refused:
        return TransactionResult(refused.code)


def init(cluster: Brokers, group_id: str | None, name: str = ID) -> tuple[int, int]:
    """Return an initialized producer, retrying as a client does."""
    for _ in range(10):
        response = ask(cluster, group_id, name)
        cluster.settle(100)
        result = value_of(response)
        if result.code is NONE:
            return result.producer_id, result.producer_epoch
        assert result.code in (BUSY, LOADING)
    raise AssertionError(result)


def code_of(response: Answer) -> ErrorCode:
    return value_of(response).code


def begin(cluster: Brokers, group_id: str | None, producer: tuple[int, int]) -> ErrorCode:
    """Begin a transaction. Return the code."""
    command = AddPartitions(ID, *producer, frozenset({A0}), 2, group_id=group_id)
    return code_of(cluster.transactions.add_partitions(command))


def pointer_of(cluster: Brokers, name: str = ID) -> str | None:
    return cluster.coordinator(name).transactions.group_of(name)


# --- one owner


@pytest.mark.parametrize("path", [(None, G), (G, None), (G, H), (None, G, H, G, None, H)])
def test_every_former_producer_is_fenced_wherever_the_id_goes(path: tuple[str | None, ...]) -> None:
    cluster = Brokers()
    former: list[tuple[str | None, tuple[int, int]]] = []
    for group_id in path:
        producer = init(cluster, group_id)
        assert begin(cluster, group_id, producer) is NONE
        assert cluster.owners(ID) == [group_id]
        assert pointer_of(cluster) == group_id
        for place, old in former:
            assert begin(cluster, place, old) not in (NONE, BUSY)
        former.append((group_id, producer))


def test_the_same_group_is_joined_again_without_a_call() -> None:
    cluster = Brokers()
    init(cluster, G)
    sent = cluster.sent
    init(cluster, G)
    assert cluster.sent == sent


def claim_and_lose(cluster: Brokers) -> None:
    """Let the claim of G take effect, and lose its response, so that G does not take the id."""
    response = ask(cluster, G)
    (flight,) = cluster.flights
    flight.lose()
    cluster.settle()
    assert code_of(response) is LOADING
    assert (cluster.owners(ID), pointer_of(cluster)) == ([], G)


@pytest.mark.parametrize("group_id", [G, H, None])
def test_the_pointer_is_committed_first_and_without_the_id_a_later_call_repeats_the_claim(
    group_id: str | None,
) -> None:
    cluster = Brokers()
    claim_and_lose(cluster)
    init(cluster, group_id)
    assert (cluster.owners(ID), pointer_of(cluster)) == ([group_id], group_id)


@pytest.mark.parametrize("group_id", [G, H, None])
def test_a_crash_after_the_pointer_leaves_an_id_that_can_be_initialized(
    group_id: str | None,
) -> None:
    cluster = Brokers()
    claim_and_lose(cluster)
    cluster = cluster.crash()
    assert pointer_of(cluster) == G
    init(cluster, group_id)
    assert cluster.owners(ID) == [group_id]
    assert pointer_of(cluster) == group_id


def test_the_pointer_and_the_owner_survive_the_loss_of_any_broker() -> None:
    cluster = Brokers()
    producer = init(cluster, G)
    for broker_id in (1, 2, 3):
        cluster.kill(broker_id)
        assert pointer_of(cluster) == G
        assert begin(cluster, G, producer) is NONE
    plain = init(cluster, None)
    assert begin(cluster, G, producer) is FENCED
    assert begin(cluster, None, plain) is NONE


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
@pytest.mark.parametrize("target", [G, None])
def test_a_lost_response_is_retriable_and_the_retry_ends_the_move(
    target: str | None, applied: bool
) -> None:
    cluster = Brokers()
    init(cluster, H)
    for _ in range(3):
        response = ask(cluster, target)
        if not cluster.flights:
            break
        flight = cluster.flights[0]
        if applied:
            flight.lose()
            cluster.settle()
        else:
            cluster.flights.clear()
            flight.lose()
        assert code_of(response) is LOADING
        assert len(cluster.owners(ID)) <= 1
    init(cluster, target)
    assert cluster.owners(ID) == [target]


def test_b27_two_groups_that_take_an_id_at_once_do_not_both_get_it() -> None:
    """H has claimed the id and has not taken it yet, when G lets it depart from H."""
    cluster = Brokers()
    of_h = ask(cluster, H)
    # The response of the claim stays in flight.
    (flight,) = cluster.flights
    answer, flight.answer = flight.answer, Deferred()
    cluster.settle()
    of_g = ask(cluster, G)
    cluster.settle()
    assert code_of(of_g) is NONE
    assert cluster.owners(ID) == [G]
    flight.answer.on_complete(answer.complete)
    cluster.settle()
    assert code_of(of_h) is BUSY
    assert cluster.owners(ID) == [G]


def test_a_claim_is_refused_if_the_pointer_is_newer_than_the_departure() -> None:
    """G has let the id depart from H. Before G claims the id again, H takes it back."""
    cluster = Brokers()
    init(cluster, H)
    of_g = ask(cluster, G)
    cluster.deliver()  # the first claim: the id is in H
    cluster.deliver()  # the departure from H
    assert cluster.owners(ID) == []
    (second_claim,) = cluster.flights
    cluster.flights.clear()
    init(cluster, H)
    cluster.flights.append(second_claim)
    cluster.settle()
    assert code_of(of_g) is BUSY
    assert cluster.owners(ID) == [H]
    assert pointer_of(cluster) == H


def test_an_id_without_a_group_is_not_initialized_if_a_group_claims_it_meanwhile() -> None:
    """The id has departed from H for an InitProducerId without a group. H takes it back before the
    response arrives."""
    cluster = Brokers()
    init(cluster, H)
    plain = ask(cluster, None)
    (flight,) = cluster.flights
    answer, flight.answer = flight.answer, Deferred()
    cluster.settle()
    assert cluster.owners(ID) == []
    init(cluster, H)
    flight.answer.on_complete(answer.complete)
    assert code_of(plain) is BUSY
    assert cluster.owners(ID) == [H]


def test_a_late_departure_does_not_fence_a_producer_that_came_later() -> None:
    cluster = Brokers()
    init(cluster, H)
    ask(cluster, None)
    (late,) = cluster.flights
    cluster.flights.clear()
    late.lose()
    init(cluster, None)
    producer = init(cluster, H)
    cluster.flights.append(late)
    cluster.settle()
    assert begin(cluster, H, producer) is NONE


# --- a directory of a single broker


def named_everywhere() -> list[str]:
    return [name_in(shard, "single") for shard in range(SHARDS)]


def of_a_single_broker() -> Brokers:
    """Return a cluster with one broker, on a disk that a single broker has written."""
    return first_start(written_by_a_single_broker())


def first_start(files: MemoryFiles) -> Brokers:
    return Brokers(size=1, files=files, epoch=2, next_producer_id=9_000)


def written_by_a_single_broker() -> MemoryFiles:
    """Return a disk with ids that are in a group, and have no pointer. An id may have an older
    pointer from an earlier time as a cluster."""
    cluster = Brokers(size=1)
    for name in named_everywhere():
        init(cluster, H, name)
    world = World(cluster.files.after_kill(), shards=SHARDS, leader_epoch=1)
    for name in (*named_everywhere(), ID):
        command = InitProducerId(name, 60_000)
        response = world.transactions.init_producer_id(
            command, GroupAssignment(G, 1, frozenset({IN0}))
        )
        assert code_of(response) is NONE
    return world.files.after_kill()


def test_the_ids_of_a_single_brokers_groups_get_their_pointers_at_the_first_start() -> None:
    cluster = of_a_single_broker()
    for name in (*named_everywhere(), ID):
        assert (cluster.owners(name), pointer_of(cluster, name)) == ([G], G)
        init(cluster, H, name)
        assert (cluster.owners(name), pointer_of(cluster, name)) == ([H], H)


def test_no_id_is_initialized_while_the_pointers_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise an id could be in its group and in its own shard at once."""

    def too_few(partition: Partition) -> None:
        raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS)

    files = written_by_a_single_broker()
    with monkeypatch.context() as below_min_isr:
        below_min_isr.setattr(Partition, "check_in_sync_replicas", too_few)
        cluster = first_start(files)
        for name in named_everywhere():
            assert code_of(ask(cluster, None, name)) is LOADING
            assert cluster.owners(name) == [G]
    for name in named_everywhere():
        init(cluster, None, name)
        assert cluster.owners(name) == [None]


def test_a_broker_that_leads_nothing_yet_knows_no_pointers() -> None:
    cluster = of_a_single_broker()
    (broker,) = cluster.brokers.values()
    transactions = broker.transactions
    transactions._has_pointers = False
    for index in range(SHARDS):
        transactions.resign(index)
    with pytest.raises(Refused) as refused:
        transactions.owner(ID)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert not transactions._has_pointers


def test_a_load_writes_no_pointer_that_is_there() -> None:
    cluster = of_a_single_broker()
    ends = [cluster.oracle(log).end_offset for log in cluster.transaction_logs]
    again = cluster.crash()
    assert [again.oracle(log).end_offset for log in again.transaction_logs] == ends


# --- unavailable coordinators


@pytest.mark.parametrize("group_id", [G, None])
def test_an_unreachable_coordinator_is_retriable_and_changes_nothing(group_id: str | None) -> None:
    cluster = Brokers()
    producer = init(cluster, H)
    before = [cluster.oracle(log).end_offset for log in cluster.transaction_logs]
    response = ask(cluster, group_id)
    flight = cluster.flights.pop()
    flight.lose()
    assert code_of(response) is LOADING
    assert [cluster.oracle(log).end_offset for log in cluster.transaction_logs] == before
    assert begin(cluster, H, producer) is NONE


def test_a_shard_that_has_moved_is_retriable() -> None:
    """The broker of the group asks the former leader of the id's shard, by its old metadata."""
    cluster = Brokers()
    response = ask(cluster, G)
    cluster.move(cluster.shard_of(ID), cluster.leaders[cluster.shard_of(G)].broker_id)
    cluster.settle()
    assert code_of(response) is LOADING
    init(cluster, G)


def test_a_response_of_a_deposed_leader_does_not_count() -> None:
    """The shard moves while the response is in flight."""
    cluster = Brokers()
    response = ask(cluster, G)
    (flight,) = cluster.flights
    answer, flight.answer = flight.answer, Deferred()
    cluster.settle()
    cluster.move(cluster.shard_of(ID), cluster.leaders[cluster.shard_of(H)].broker_id)
    flight.answer.on_complete(answer.complete)
    assert code_of(response) is LOADING
    assert cluster.owners(ID) == []


def test_a_group_whose_shard_has_moved_does_not_take_the_id() -> None:
    cluster = Brokers()
    response = ask(cluster, G)
    (flight,) = cluster.flights
    answer, flight.answer = flight.answer, Deferred()
    cluster.settle()
    owner = cluster.leaders[cluster.shard_of(G)].broker_id
    cluster.move(cluster.shard_of(G), cluster.leaders[cluster.shard_of(H)].broker_id)
    cluster.move(cluster.shard_of(G), owner)
    flight.answer.on_complete(answer.complete)
    assert code_of(response) is BUSY


# --- expiry


WEEK_MS = 7 * 86_400_000


def sweep(cluster: Brokers) -> None:
    for broker in cluster.brokers.values():
        broker.transactions.expire_pointers(cluster.wall())
    cluster.settle()


def test_a_pointer_stays_while_its_group_has_the_id() -> None:
    cluster = Brokers()
    producer = init(cluster, G)
    sweep(cluster)
    assert pointer_of(cluster) == G
    assert begin(cluster, G, producer) is NONE


def test_a_pointer_expires_after_the_id() -> None:
    cluster = Brokers()
    claim_and_lose(cluster)
    sweep(cluster)
    assert pointer_of(cluster) is None
    assert pointer_of(cluster.crash()) is None
    assert init(cluster, None)


def test_a_pointer_that_is_claimed_again_does_not_expire() -> None:
    cluster = Brokers()
    claim_and_lose(cluster)
    for broker in cluster.brokers.values():
        broker.transactions.expire_pointers(cluster.wall())
    (departure,) = cluster.flights
    answer, departure.answer = departure.answer, Deferred()
    cluster.settle()
    init(cluster, G)
    departure.answer.on_complete(answer.complete)
    cluster.settle()
    assert (cluster.owners(ID), pointer_of(cluster)) == ([G], G)


# --- all together


@pytest.mark.parametrize("flush_on_ack", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_b27_an_id_has_one_owner_whatever_happens(seed: int, flush_on_ack: bool) -> None:
    """InitProducerId of three owners at once, lost and late calls, shards that move, and brokers
    that die, in any order."""
    random = Random(seed)
    cluster = Brokers(flush_on_ack=flush_on_ack)
    places = (None, G, H, name_in(0, "same"))
    got: list[tuple[str | None, tuple[int, int]]] = []
    asked: list[tuple[str | None, Answer]] = []
    for _ in range(60):
        step = random.random()
        if step < 0.35:
            place = random.choice(places)
            asked.append((place, ask(cluster, place)))
        elif step < 0.7:
            cluster.deliver()
        elif step < 0.8:
            cluster.files.settle()
            cluster.timers.run_soon()
        elif step < 0.87 and cluster.flights:
            random.choice(cluster.flights).lose()
        elif step < 0.92 and cluster.flights:
            random.shuffle(cluster.flights)
        elif step < 0.97:
            log = random.choice(cluster.transaction_logs)
            cluster.move(log, random.randint(1, cluster.size))
        elif step < 0.98:
            cluster.kill(random.randint(1, cluster.size))
        assert len(cluster.owners(ID)) <= 1
    cluster.settle(1_000)
    assert len(cluster.owners(ID)) <= 1
    for place, response in asked:
        if not isinstance(response, Deferred) or response.done:
            result = value_of(response)
            assert result.code in (NONE, BUSY, LOADING, ErrorCode.NOT_COORDINATOR)
            if result.code is NONE:
                got.append((place, (result.producer_id, result.producer_epoch)))
    # An id and epoch belongs to one producer, and at most one of them can begin a transaction.
    assert len(set(got)) == len(got)
    began = [row for row in got if begin(cluster, *row) is NONE]
    assert len(began) <= 1
    for place in places:
        final = init(cluster, place)
        assert cluster.owners(ID) == [place]
        assert pointer_of(cluster) == place
        for where, producer in got:
            assert begin(cluster, where, producer) not in (NONE, BUSY)
        assert begin(cluster, place, final) is NONE
        got.append((place, final))


# --- what a departure writes


@pytest.mark.parametrize("group_id", [G, H])
def test_a_departure_is_a_record_even_where_the_id_is_unknown(group_id: str) -> None:
    """A deposed leader, which may not know the id any more, cannot commit the record. So it cannot
    say that the id has left."""
    cluster = Brokers()
    init(cluster, G)
    coordinator = cluster.coordinator(group_id).transactions
    _, shard = coordinator.owner(group_id)
    for name in (ID, "unknown"):
        decision = decide_departure_from(
            shard, name, group_id, producer=(-1, -1), keep_prepared=False, caller=None, wall_ms=1
        )
        assert decision.records
