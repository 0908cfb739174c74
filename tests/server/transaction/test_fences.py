"""The coordinator remembers which producer fenced another producer, when, and for which client. It
reports each fence once."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.fences import REMEMBERED, Fence, FenceCause, Fences, Reason
from oncelog_server.transaction.grouped.init import decide_departure
from oncelog_server.transaction.grouped.refusals import refuse_in_group, refuse_outdated
from oncelog_server.transaction.states import State
from oncelog_server.transaction.views import details_of
from tests.server.transaction.driver import ID, P0, P1, Driver
from tests.server.transaction.grouped.driver import IN0, IN1, GroupDriver

OLD = Client("old", "/10.0.0.1", "User:alice")
NEW = Client("new", "/10.0.0.2", "User:bob")
ADMIN = Client("op", "/10.0.0.9")
FENCED = ErrorCode.PRODUCER_FENCED
TIMED_OUT, NEWER, OPERATOR, GENERATION = (
    FenceCause.TIMED_OUT,
    FenceCause.NEWER_INSTANCE,
    FenceCause.OPERATOR,
    FenceCause.NEWER_GENERATION,
)


class Heard:
    """A coordinator that records the aborts and refusals that it reports."""

    def __init__(self) -> None:
        self.aborted: list[Fence] = []
        self.refused: list[Fence] = []
        self.fences = Fences(self.aborted.append, self.refused.append)
        self.driver = Driver()
        self.driver.shard.fences = self.fences

    def begin(self, client: Client = OLD) -> tuple[int, int]:
        """Begin a transaction with a producer of the client."""
        result = self.driver.init(caller=client).value
        producer = result.producer_id, result.producer_epoch
        assert self.driver.add(*producer, P0).value.code is ErrorCode.NONE
        return producer

    def listed(self) -> list[tuple[FenceCause, Client | None, bool]]:
        return [(fence.cause, fence.by, fence.aborted) for fence in self.driver.live.fences]


def test_a_timed_out_transaction_names_no_client() -> None:
    heard = Heard()
    producer = heard.begin()
    heard.driver.now_ms += 60_000
    heard.driver.abort_overdue()
    assert heard.listed() == [(TIMED_OUT, None, True)]
    (event,) = heard.aborted
    assert (event.owner, event.at_ms) == (OLD, heard.driver.wall_ms)
    assert (event.producer_id, event.producer_epoch) == producer
    assert heard.driver.end(*producer, True).value.code is FENCED


def test_a_newer_instance_is_reported_once_though_it_retries() -> None:
    heard = Heard()
    producer = heard.begin()
    assert heard.driver.init(caller=NEW).value.code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert heard.driver.init(caller=NEW).value.code is ErrorCode.NONE
    assert heard.listed() == [(NEWER, NEW, True)]
    assert heard.driver.live.client == NEW
    assert heard.fences.fenced[NEWER] == heard.fences.aborted[NEWER] == 1
    for _ in range(3):
        refused = heard.driver.add(*producer, P1).value
        assert refused.code is FENCED
        assert "new at /10.0.0.2: newer instance" in refused.message
    assert [refusal.cause for refusal in heard.refused] == [NEWER]
    (fence,) = heard.driver.live.fences
    assert fence.refusals == heard.fences.refused[NEWER] == 3


def test_a_newer_instance_of_an_id_without_an_open_transaction_aborts_nothing() -> None:
    heard = Heard()
    producer = heard.driver.init(caller=OLD).value
    heard.driver.init(caller=NEW)
    assert heard.listed() == [(NEWER, NEW, False)]
    assert heard.aborted == []
    heard.driver.init(producer.producer_id, producer.producer_epoch)
    assert [refusal.owner for refusal in heard.refused] == [OLD]


def test_an_operator_ends_the_open_transaction_and_does_not_own_the_id() -> None:
    heard = Heard()
    producer = heard.begin()
    heard.driver.init(caller=ADMIN, by_operator=True)
    assert heard.driver.init(caller=ADMIN, by_operator=True).value.code is ErrorCode.NONE
    assert heard.listed() == [(OPERATOR, ADMIN, True)]
    assert heard.driver.live.client is None
    assert heard.driver.end(*producer, True).value.code is FENCED
    assert heard.fences.refused[OPERATOR] == 1


@pytest.mark.parametrize("client_id", ["adminclient-1", "adminclient-20"])
def test_an_operator_with_kafkas_tool_ends_the_open_transaction_and_does_not_own_the_id(
    client_id: str,
) -> None:
    """Only the client id shows that the client is an operator's tool."""
    admin = Client(client_id, "/10.0.0.9")
    heard = Heard()
    producer = heard.begin()
    heard.driver.init(caller=admin)
    assert heard.driver.init(caller=admin).value.code is ErrorCode.NONE
    assert heard.listed() == [(OPERATOR, admin, True)]
    assert heard.driver.live.client is None
    assert heard.driver.end(*producer, True).value.code is FENCED
    assert heard.fences.refused[OPERATOR] == 1


@pytest.mark.parametrize("client_id", ["adminclient-", "adminclient", "1", "my-adminclient-1"])
def test_a_client_without_the_client_id_of_the_tool_is_a_newer_instance(client_id: str) -> None:
    client = Client(client_id, "/10.0.0.9")
    heard = Heard()
    heard.begin()
    heard.driver.init(caller=client)
    heard.driver.init(caller=client)
    assert heard.listed() == [(NEWER, client, True)]
    assert heard.driver.live.client == client


def test_an_id_that_kafkas_tool_removes_from_a_group_is_fenced_by_an_operator() -> None:
    heard = Heard()
    heard.begin()
    admin = Client("adminclient-1", "/10.0.0.9")
    decision = decide_departure(heard.driver.shard, ID, admin, wall_ms=1)
    heard.driver.run(decision)
    assert heard.listed() == [(OPERATOR, admin, True)]


def test_the_newest_of_three_instances_fences_the_second_that_has_aborted() -> None:
    """A producer that takes over an id fences the previous producer, even if the id has no open
    transaction."""
    heard = Heard()
    heard.begin()
    heard.driver.init(caller=NEW)
    second = heard.driver.init(caller=NEW).value
    heard.driver.add(second.producer_id, second.producer_epoch, P0)
    heard.driver.end(second.producer_id, second.producer_epoch, False, bumps_epoch=False)
    heard.driver.init(caller=ADMIN)
    assert heard.listed() == [(NEWER, NEW, True), (NEWER, ADMIN, False)]


def test_an_instance_after_a_timeout_is_not_the_cause_of_the_timeout() -> None:
    heard = Heard()
    producer = heard.begin()
    heard.driver.now_ms += 60_000
    heard.driver.abort_overdue()
    heard.driver.init(caller=NEW)
    assert [cause for cause, _, _ in heard.listed()] == [TIMED_OUT, NEWER]
    assert "timed out" in heard.driver.end(*producer, True).value.message
    # The newer instance prevents the producer from continuing after its timeout.
    assert heard.driver.init(*producer).value.code is FENCED


def test_a_producer_that_bumps_its_own_epoch_leaves_no_fence() -> None:
    heard = Heard()
    producer = heard.begin()
    heard.driver.init(*producer, caller=OLD)
    heard.driver.init(*producer, caller=OLD)
    assert heard.listed() == []
    assert heard.driver.live.client == OLD


def test_w2_an_instance_that_keeps_a_prepared_transaction_fences_the_one_before() -> None:
    heard = Heard()
    first = heard.driver.init(caller=OLD, two_phase=True).value
    heard.driver.add(first.producer_id, first.producer_epoch, P0)
    heard.driver.init(caller=NEW, two_phase=True, keep=True)
    assert heard.listed() == [(NEWER, NEW, False)]
    assert heard.aborted == []
    assert heard.fences.aborted[NEWER] == 0
    assert heard.driver.live.client == NEW
    assert heard.driver.end(first.producer_id, first.producer_epoch, True).value.code is FENCED
    assert heard.fences.refused[NEWER] == 1


def test_a_decision_that_was_not_written_leaves_no_fence() -> None:
    heard = Heard()
    heard.begin()
    heard.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    heard.driver.init(caller=NEW)
    heard.driver.now_ms += 60_000
    heard.driver.abort_overdue()
    assert heard.listed() == []
    assert heard.driver.live.client == OLD


def test_only_the_last_fences_of_an_id_are_remembered() -> None:
    heard = Heard()
    for _ in range(3 * REMEMBERED):
        heard.driver.init(caller=NEW)
    assert len(heard.listed()) == REMEMBERED
    assert heard.fences.fenced[NEWER] == 3 * REMEMBERED - 1


def test_a_refusal_without_a_known_fence_has_its_own_count() -> None:
    """No fence explains an epoch that was never assigned, or an epoch from before a restart."""
    heard = Heard()
    producer_id, epoch = heard.begin()
    assert heard.driver.end(producer_id, epoch + 5, True).value.message == ""
    assert heard.fences.refused_unknown == 1
    assert heard.refused == []


def test_a_group_refuses_a_producer_until_it_has_joined_again() -> None:
    """The producer may join again, so it is not fenced forever (KIP-447). A later fence replaces
    the reason for the refusal."""
    heard = Heard()
    producer = heard.begin()
    for _ in range(2):
        heard.driver.run(refuse_in_group(heard.driver.live, producer, Reason(GENERATION), 5))
    assert heard.listed() == [(GENERATION, None, False)]
    assert [refusal.cause for refusal in heard.refused] == [GENERATION]
    heard.driver.now_ms += 60_000
    heard.driver.abort_overdue()
    assert "timed out" in heard.driver.end(*producer, True).value.message


def test_a_newer_generation_fences_older_producers_with_or_without_a_transaction() -> None:
    """The client of the new generation fences each older producer once (KIP-447, early draft)."""
    driver = GroupDriver()
    busy, idle = driver.member("busy", 1, IN0), driver.member("idle", 1, IN1)
    driver.begin(busy, P0)
    for generation in (2, 3):
        driver.join("new", generation, IN0, caller=NEW)
        driver.join("new", generation, IN0, caller=NEW)
    for member, aborted in ((busy, True), (idle, False)):
        live = driver.shard.get(member.transactional_id)
        assert live is not None
        assert [(fence.cause, fence.by, fence.aborted) for fence in live.fences] == [
            (GENERATION, NEW, aborted)
        ]
        producer = member.producer_id, member.producer_epoch
        refused = driver.run(refuse_outdated(driver.shard, live, producer, 5)).value
        assert "new at /10.0.0.2: newer generation" in refused.message
    assert driver.shard.fences.refused[GENERATION] == 2


def test_the_former_coordinator_names_the_client_that_took_an_id_into_a_group() -> None:
    driver = GroupDriver()
    before = driver.init(caller=OLD).value
    decision = decide_departure(driver.shard, ID, NEW, wall_ms=driver.wall_ms)
    driver.run(decision)
    refused = driver.end(before.producer_id, before.producer_epoch, True).value
    assert "new at /10.0.0.2" in refused.message


def test_the_client_of_an_id_is_known_again_with_its_first_request_after_a_restart() -> None:
    driver = Driver()
    producer = driver.init(caller=OLD).value
    driver.crash()
    assert driver.live.client is None
    driver.add(producer.producer_id, producer.producer_epoch, P0, caller=OLD)
    driver.add(producer.producer_id, producer.producer_epoch, P1, caller=NEW)
    assert driver.live.client == OLD


def test_the_client_of_an_open_transaction_is_known_after_a_crash() -> None:
    """Compaction may remove all but the newest of the transaction's records, so each record has the
    client."""
    driver = Driver()
    producer = driver.init(caller=OLD).value
    identity = producer.producer_id, producer.producer_epoch
    driver.add(*identity, P0, caller=OLD)
    driver.crash()
    assert driver.live.client == OLD
    driver.add(*identity, P1, caller=NEW)
    del driver.log[:-1]
    driver.crash()
    assert driver.live.client == OLD
    assert driver.end(*identity, True).value.code is ErrorCode.NONE
    driver.crash()
    assert driver.live.client is None


def test_w2_the_client_that_keeps_a_prepared_transaction_is_known_after_a_crash() -> None:
    driver = Driver()
    producer = driver.init(caller=OLD, two_phase=True).value
    driver.add(producer.producer_id, producer.producer_epoch, P0, caller=OLD)
    driver.crash()
    assert driver.live.client == OLD
    driver.init(caller=NEW, two_phase=True, keep=True)
    driver.crash()
    assert driver.live.client == NEW


def test_a_long_client_id_is_cut_only_in_the_record() -> None:
    driver = Driver()
    client = Client("n" * 30_000, "/10.0.0.1")
    producer = driver.init(caller=client).value
    driver.add(producer.producer_id, producer.producer_epoch, P0)
    assert driver.live.client == client
    assert sum(map(len, filter(None, driver.log[-1]))) < 500
    driver.crash()
    assert driver.live.client == Client("n" * 256, "/10.0.0.1")


@pytest.mark.parametrize("client", [OLD, None])
def test_the_view_has_all_fields_of_the_transaction_and_its_fence(client: Client | None) -> None:
    heard = Heard()
    heard.begin()
    heard.driver.init(caller=NEW)
    heard.driver.init(caller=client)
    producer = heard.driver.metadata.owner
    heard.driver.add(*producer, P0)
    state = details_of(heard.driver.live, now_ms=heard.driver.now_ms + 10_000)
    assert (state.client_id, state.client_address, state.principal) == (client or ("",) * 3)
    assert state.time_left_ms == 50_000
    (fence,) = state.fences
    assert fence.cause == "newer instance"
    assert (fence.client_id, fence.client_address, fence.principal) == NEW
    assert (state.transactional_id, state.state) == (ID, State.ONGOING)
