"""The states of a producer's transaction: every call in every state, and the effects of error
codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.prepared_txn_state import PreparedTxnState
from oncelog_client.core.producer_id import ProducerIdAndEpoch
from oncelog_client.core.producer_transaction import ProducerTransaction
from oncelog_client.core.transaction_states import Event, State
from oncelog_client.core.verdicts import Verdict, verdict
from oncelog_client.errors import (
    AbortableError,
    ConfigError,
    FatalError,
    IllegalStateError,
    KafkaError,
    ProducerFencedError,
    TimedOutError,
    error_for,
)
from oncelog_client.values import TopicPartition, TransactionGroup
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode

TP = TopicPartition("t", 0)
FIRST = ProducerIdAndEpoch(5, 0)

# The events that lead to each state.
PATHS = {
    State.UNINITIALIZED: [],
    State.INITIALIZING: [Event.INIT],
    State.READY: [Event.INIT, Event.INITIALIZED],
    State.IN_TRANSACTION: [Event.INIT, Event.INITIALIZED, Event.BEGIN],
    State.PREPARING: [Event.INIT, Event.INITIALIZED, Event.BEGIN, Event.PREPARE],
    State.PREPARED: [Event.INIT, Event.KEPT],
    State.PREPARING_COMMIT: [Event.INIT, Event.INITIALIZED, Event.BEGIN, Event.PREPARE_COMMIT],
    State.COMMITTING: [
        *(Event.INIT, Event.INITIALIZED, Event.BEGIN, Event.PREPARE_COMMIT),
        Event.SEND_COMMIT,
    ],
    State.COMMIT_UNKNOWN: [
        *(Event.INIT, Event.INITIALIZED, Event.BEGIN, Event.PREPARE_COMMIT),
        *(Event.SEND_COMMIT, Event.OUTCOME_UNKNOWN),
    ],
    State.ABORTING: [Event.INIT, Event.INITIALIZED, Event.BEGIN, Event.ABORT],
    State.ABORTABLE_ERROR: [Event.INIT, Event.INITIALIZED, Event.BEGIN, Event.ABORTABLE],
    State.FENCED_IN_GROUP: [Event.REJOIN, Event.FENCED],
    State.FATAL_ERROR: [Event.FATAL],
}

# The calls that each state allows; any other call raises an error and changes nothing.
CALLS = {
    State.UNINITIALIZED: {Event.INIT, Event.REJOIN},
    State.INITIALIZING: set(),
    State.READY: {Event.BEGIN, Event.REJOIN},
    State.IN_TRANSACTION: {Event.PREPARE, Event.PREPARE_COMMIT, Event.ABORT, Event.REJOIN},
    State.PREPARING_COMMIT: {Event.PREPARE_COMMIT, Event.ABORT, Event.REJOIN},
    State.PREPARING: {Event.PREPARE, Event.ABORT, Event.HAND_OVER},
    State.PREPARED: {Event.PREPARE_COMMIT, Event.ABORT},
    State.COMMITTING: set(),
    State.COMMIT_UNKNOWN: {Event.PREPARE_COMMIT},
    State.ABORTING: {Event.ABORT, Event.REJOIN},
    State.ABORTABLE_ERROR: {Event.ABORT, Event.REJOIN},
    State.FENCED_IN_GROUP: {Event.REJOIN},
    State.FATAL_ERROR: set(),
}
USER_EVENTS = {
    *(Event.INIT, Event.REJOIN, Event.BEGIN, Event.PREPARE, Event.HAND_OVER),
    *(Event.PREPARE_COMMIT, Event.ABORT),
}


def reach(state: State) -> ProducerTransaction:
    core = ProducerTransaction()
    for event in PATHS[state]:
        core.apply(event)
    assert core.state is state
    return core


def in_transaction(version: int = 2) -> ProducerTransaction:
    core = ProducerTransaction()
    core.apply(Event.INIT)
    core.initialized(FIRST)
    core.begin(version)
    return core


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", [event for event in Event if event in USER_EVENTS])
def test_each_call_is_allowed_only_in_the_states_of_the_table(state: State, event: Event) -> None:
    core = reach(state)
    if event in CALLS[state]:
        core.apply(event)
    else:
        with pytest.raises(IllegalStateError):
            core.apply(event)
        assert core.state is state


@given(st.lists(st.sampled_from(Event), max_size=30))
def test_an_event_that_is_refused_leaves_the_state_unchanged(events: list[Event]) -> None:
    core = ProducerTransaction()
    for event in events:
        before = core.state
        try:
            core.apply(event)
        except IllegalStateError:
            assert core.state is before


def test_no_sequence_of_events_aborts_a_commit_with_an_unknown_outcome() -> None:
    # The client never aborts a transaction that may have been committed.
    reachable = {State.COMMIT_UNKNOWN}
    for _ in State:
        for state in tuple(reachable):
            for event in Event:
                core = reach(state)
                if event in (Event.FATAL, Event.FENCED, Event.COMMITTED):
                    continue
                # Only a response that refuses the commit causes this event. After such a response
                # the outcome is known.
                if (state, event) == (State.COMMITTING, Event.ABORTABLE):
                    continue
                try:
                    core.apply(event)
                except KafkaError:
                    continue
                reachable.add(core.state)
    assert reachable == {State.COMMIT_UNKNOWN, State.COMMITTING}


def test_an_abortable_error_is_kept_and_raised_until_the_abort() -> None:
    core = in_transaction()
    first = core.fail_abortable(TimedOutError("first"))
    core.fail_abortable(TimedOutError("second"))
    assert isinstance(first, AbortableError)
    with pytest.raises(AbortableError, match="first"):
        core.apply(Event.PREPARE_COMMIT)
    with pytest.raises(AbortableError, match="first"):
        core.check_sendable()
    core.apply(Event.ABORT)
    core.ended(Event.ABORTED, None)
    core.begin(2)
    core.check_sendable()


def test_a_fatal_error_is_raised_for_ever() -> None:
    core = in_transaction()
    core.fail_fatal(ProducerFencedError("gone"))
    for event in USER_EVENTS:
        with pytest.raises(ProducerFencedError):
            core.apply(event)


@pytest.mark.parametrize(
    ("code", "state", "bump"),
    [
        (ErrorCode.INVALID_RECORD, State.ABORTABLE_ERROR, False),
        (ErrorCode.REQUEST_TIMED_OUT, State.ABORTABLE_ERROR, False),
        (ErrorCode.TRANSACTION_ABORTABLE, State.ABORTABLE_ERROR, False),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, State.ABORTABLE_ERROR, True),
        (ErrorCode.UNKNOWN_PRODUCER_ID, State.ABORTABLE_ERROR, True),
        (ErrorCode.INVALID_PRODUCER_EPOCH, State.ABORTABLE_ERROR, True),
        (ErrorCode.PRODUCER_FENCED, State.FATAL_ERROR, False),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, State.FATAL_ERROR, False),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, State.FATAL_ERROR, False),
    ],
)
def test_the_error_of_a_refused_batch_decides_the_next_state(
    code: ErrorCode, state: State, bump: bool
) -> None:
    core = in_transaction()
    core.batch_failed(error_for(code))
    assert (core.state, core.bump_needed) == (state, bump)


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NETWORK_EXCEPTION, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED],
)
@pytest.mark.parametrize("state", [State.UNINITIALIZED, State.INITIALIZING])
def test_a_failed_batch_of_an_earlier_generation_does_not_affect_the_next(
    state: State, code: ErrorCode
) -> None:
    core = in_transaction()
    core.want_partition(TP)
    core.rejoin(TransactionGroup("g", 2, frozenset()))
    if state is State.UNINITIALIZED:
        core.apply(Event.INIT_FAILED)
    core.batch_failed(error_for(code))
    assert core.state is state
    if state is State.UNINITIALIZED:
        core.rejoin(TransactionGroup("g", 2, frozenset()))
    core.initialized(FIRST)
    core.begin(2)
    assert core.error is None
    assert not core.bump_needed
    assert not core.may_send(TP)


def test_a_response_for_an_earlier_generation_does_not_affect_the_next() -> None:
    core = in_transaction(version=1)
    core.want_partition(TP)
    core.rejoin(TransactionGroup("g", 2, frozenset()))
    core.fail_abortable(TimedOutError("adding partitions"), bump=True)
    core.partitions_added([TP])
    core.initialized(FIRST)
    core.begin(1)
    assert core.error is None
    assert not core.bump_needed
    assert not core.started
    assert not core.may_send(TP)


VERDICTS = [
    (ApiKey.INIT_PRODUCER_ID, ErrorCode.NONE, Verdict.DONE),
    (ApiKey.INIT_PRODUCER_ID, ErrorCode.CONCURRENT_TRANSACTIONS, Verdict.RETRY),
    (ApiKey.INIT_PRODUCER_ID, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Verdict.RETRY),
    (ApiKey.INIT_PRODUCER_ID, ErrorCode.NOT_COORDINATOR, Verdict.FIND_COORDINATOR),
    (ApiKey.INIT_PRODUCER_ID, ErrorCode.PRODUCER_FENCED, Verdict.FATAL),
    (ApiKey.INIT_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.FATAL),
    (ApiKey.INIT_PRODUCER_ID, ErrorCode.INVALID_TRANSACTION_TIMEOUT, Verdict.FATAL),
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Verdict.RETRY),
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.ABORTABLE),
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.FENCED),
    (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.GROUP_AUTHORIZATION_FAILED, Verdict.ABORTABLE),
    (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.INVALID_TXN_STATE, Verdict.FATAL),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION, Verdict.ABORTABLE),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID, Verdict.ABORTABLE),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.FENCED_INSTANCE_ID, Verdict.ABORTABLE),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Verdict.RETRY),
    (ApiKey.END_TXN, ErrorCode.PRODUCER_FENCED, Verdict.FENCED),
    (ApiKey.END_TXN, ErrorCode.TRANSACTION_ABORTABLE, Verdict.ABORTABLE),
    (ApiKey.END_TXN, ErrorCode.UNKNOWN_PRODUCER_ID, Verdict.ABORTABLE_BUMP),
    (ApiKey.END_TXN, ErrorCode.INVALID_TXN_STATE, Verdict.FENCED),
    (ApiKey.END_TXN, ErrorCode.REQUEST_TIMED_OUT, Verdict.FIND_COORDINATOR),
]


@pytest.mark.parametrize(("api", "code", "expected"), VERDICTS)
def test_each_error_code_of_a_coordinator_has_its_verdict(
    api: ApiKey, code: ErrorCode, expected: Verdict
) -> None:
    assert verdict(api, code) is expected


def test_an_unknown_code_is_fatal() -> None:
    assert verdict(ApiKey.END_TXN, 30_000) is Verdict.FATAL


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED])
def test_a_response_with_a_fatal_code_is_a_fatal_error(code: ErrorCode) -> None:
    core = in_transaction()
    error = core.refused(ApiKey.END_TXN, code)
    assert isinstance(error, FatalError)
    assert core.state is State.FATAL_ERROR


def test_before_version_2_partitions_wait_until_the_coordinator_has_them() -> None:
    core = in_transaction(version=1)
    core.want_partition(TP)
    assert not core.started
    assert core.partitions_to_add() == [TP]
    assert not core.may_send(TP)
    core.partitions_added([TP])
    core.want_partition(TP)
    assert core.partitions_to_add() == []
    assert core.may_send(TP)
    assert core.needs_group("g")
    core.group_added("g")
    assert not core.needs_group("g")


def test_from_version_2_on_brokers_add_partitions_and_groups() -> None:
    core = in_transaction(version=2)
    core.want_partition(TP)
    assert core.started
    assert core.may_send(TP)
    assert core.partitions_to_add() == []
    assert not core.needs_group("g")


def test_a_commit_forgets_the_partitions_and_takes_the_new_identity() -> None:
    core = in_transaction()
    core.want_partition(TP)
    core.apply(Event.PREPARE_COMMIT)
    core.apply(Event.SEND_COMMIT)
    core.ended(Event.COMMITTED, ProducerIdAndEpoch(5, 1))
    core.begin(2)
    assert not core.may_send(TP)
    assert not core.started
    assert core.identity == ProducerIdAndEpoch(5, 1)


def test_a_prepared_transaction_can_only_be_ended() -> None:
    core = in_transaction()
    core.want_partition(TopicPartition("t", 0))
    core.apply(Event.PREPARE)
    prepared = core.flushed()
    assert prepared == core.prepared == PreparedTxnState(FIRST.producer_id, FIRST.producer_epoch)
    with pytest.raises(IllegalStateError, match="prepared"):
        core.check_sendable()
    with pytest.raises(IllegalStateError, match="prepared"):
        core.apply(Event.ABORTABLE)
    core.apply(Event.ABORT)
    core.ended(Event.ABORTED, None)
    assert core.prepared is None


def test_w2_a_kept_transaction_has_a_new_epoch_and_its_prepared_state_the_old_one() -> None:
    core = ProducerTransaction()
    core.apply(Event.INIT)
    core.kept(ProducerIdAndEpoch(7, 3), PreparedTxnState(7, 1), 2)
    assert core.state is State.PREPARED
    assert (core.identity, core.prepared) == (ProducerIdAndEpoch(7, 3), PreparedTxnState(7, 1))
    assert core.started, "the coordinator has a transaction to end"


def test_keep_prepared_without_an_open_transaction_keeps_nothing() -> None:
    core = ProducerTransaction()
    core.apply(Event.INIT)
    core.kept(ProducerIdAndEpoch(7, 3), PreparedTxnState(), 2)
    assert (core.state, core.nothing_kept, core.prepared) == (State.READY, True, None)
    core.begin(2)
    assert not core.nothing_kept


@pytest.mark.parametrize("state", [PreparedTxnState(), PreparedTxnState(2**40, 32766)])
def test_a_prepared_state_is_the_same_after_formatting_and_parsing(state: PreparedTxnState) -> None:
    assert PreparedTxnState.parse(str(state)) == state


@pytest.mark.parametrize("text", ["7", "7:", ":7", "7:x", "-1:3", "7:-1", "7:1:2", "seven"])
def test_a_text_that_is_no_prepared_state_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="id:epoch"):
        PreparedTxnState.parse(text)


@pytest.mark.parametrize(
    ("earlier", "version", "bumps"), [(0, 2, True), (1, 2, True), (0, 1, False)]
)
def test_v2m_an_epoch_used_before_version_2_is_bumped_before_a_version_2_transaction(
    earlier: int, version: int, bumps: bool
) -> None:
    """A producer that has had transactions of version 0 or 1 needs a new epoch before its first
    transaction of version 2, as in Kafka's client: the marker of the last transaction may still be
    in flight, and has the present epoch."""
    core = reach(State.INITIALIZING)
    core.initialized(FIRST)
    core.begin(earlier)
    assert not core.bump_needed
    for event in (Event.PREPARE_COMMIT, Event.SEND_COMMIT):
        core.apply(event)
    core.ended(Event.COMMITTED, None)
    core.begin(version)
    assert core.bump_needed == bumps
    core.apply(Event.ABORT)
    core.ended(Event.ABORTED, ProducerIdAndEpoch(5, 1))
    core.begin(version)
    assert not core.bump_needed


def test_closing_a_producer_aborts_nothing_that_may_be_decided() -> None:
    """A prepared transaction survives its producer (KIP-939). In the other states of `kept`, the
    coordinator may have committed the transaction, or has fenced the producer. An abort is decided,
    and may be repeated until the coordinator has carried it out."""
    kept = {State.PREPARED, State.COMMITTING, State.COMMIT_UNKNOWN, State.FATAL_ERROR}
    assert {state for state in kept if reach(state).is_abortable_by_closing} == set()
    assert reach(State.IN_TRANSACTION).is_abortable_by_closing
    assert reach(State.ABORTABLE_ERROR).is_abortable_by_closing
    assert reach(State.ABORTING).is_abortable_by_closing
