"""Two-phase commit with any sequence of failures, crashes and timeouts (KIP-939). A prepared
transaction ends only by an EndTxn, or by a new instance that does not keep it. The markers have the
original producer id. An independent check (`Auditor`) finds no violated promise of KIP-98 and
KIP-890."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.transaction_log import decode_transaction_log_value
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH, NO_TIMEOUT_MS
from oncelog_server.transaction.states import State
from tests.server.transaction.auditor import Identity
from tests.server.transaction.driver import ID, P0, P1, P2
from tests.server.transaction.test_properties import Lives, Producer

# hypothesis shrinks a failing example to the first element, so True (commit) comes first.
OUTCOMES = st.sampled_from([True, False])


class TwoPhaseLives(Lives):
    """Every producer takes part in two-phase commit. Some producers keep the open transaction of
    the previous producer."""

    @initialize(near_the_end=st.booleans(), finishes=st.booleans(), far=st.integers(0, 2))
    def start(self, near_the_end: bool, finishes: bool, far: int = 0) -> None:
        super().start(False, finishes)
        self.asked_to_abort: set[Identity] = set()
        self.takes_over = False
        if near_the_end:
            self.driver.put(
                State.ONGOING,
                producer_epoch=LAST_PRODUCER_EPOCH - far,
                last_producer_epoch=-1,
                timeout_ms=NO_TIMEOUT_MS,
                partitions=frozenset({P0, P1}),
            )
            self.producers.append(Producer(0, (77, LAST_PRODUCER_EPOCH - far)))
            self.auditor.gives((77, LAST_PRODUCER_EPOCH - far), 0)

    def asks(self, producer: Producer, *, keep: bool, by_name: bool) -> None:
        named = producer.identity if by_name and producer.identity else (-1, -1)
        response = self.driver.init(*named, two_phase=True, keep=keep)
        self.answered(response, producer, named, None, False)

    @rule(keep=st.booleans())
    def a_new_instance(self, keep: bool = False) -> None:
        producer = Producer(len(self.producers))
        self.producers.append(producer)
        self.takes_over = self.takes_over or not keep
        self.asks(producer, keep=keep, by_name=False)

    @rule(data=st.data(), keep=st.booleans(), by_name=st.booleans())
    def it_asks_again(self, data: st.DataObject, keep: bool = True, by_name: bool = False) -> None:
        self.takes_over = self.takes_over or not keep
        self.asks(self.one(data), keep=keep, by_name=by_name)

    @rule(data=st.data(), committed=OUTCOMES, v2=st.booleans())
    def it_ends(self, data: st.DataObject, committed: bool, v2: bool = True) -> None:
        producer = self.one(data)
        if producer.identity is None:
            return
        if not committed:
            self.asked_to_abort.add(producer.identity)
        response = self.driver.end(*producer.identity, committed, bumps_epoch=v2)
        if v2:
            # If the response has no new epoch, the auditor could not distinguish a retry from the
            # end of the next transaction, so the auditor does not get this response.
            self.answered(response, producer, producer.identity, committed, True)

    # Most events happen to the newest instance, because older instances are usually fenced.

    @rule(at_most=st.integers(1, 3))
    def the_newest_begins(self, at_most: int) -> None:
        producer = self.newest()
        if producer.identity is not None:
            self.driver.add(*producer.identity, *(P0, P1, P2)[:at_most])

    @rule(committed=OUTCOMES, twice=st.booleans(), crashes=st.booleans())
    def the_newest_ends(self, committed: bool, twice: bool, crashes: bool) -> None:
        producer = self.newest()
        asked = producer.identity
        if asked is None:
            return
        if not committed:
            self.asked_to_abort.add(asked)
        responses = []
        for _ in range(1 + twice):
            response = self.driver.end(*asked, committed)
            self.answered(response, producer, asked, committed, True)
            if response.done:
                responses.append(response.value)
            if crashes:
                self.the_broker_ends_and_starts(2, 0)
        if responses and responses[0].code is ErrorCode.NONE:
            assert responses == [responses[0]] * len(responses), "a retry gets a different response"

    @rule(by_ms=st.sampled_from([NO_TIMEOUT_MS, 60_000]))
    def time_passes(self, by_ms: int) -> None:
        self.driver.now_ms += by_ms

    @rule()
    def a_take_over_shuts_out_all_before(self) -> None:
        self.takes_over = True
        zombies = [
            producer.identity for producer in self.producers if producer.identity is not None
        ]
        if self.driver.init(two_phase=True).value.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            return
        for zombie in zombies:
            for response in (self.driver.init(*zombie), self.driver.add(*zombie, P0)):
                assert response.value.code is not ErrorCode.NONE

    @rule(times=st.integers(1, 3), crashes=st.booleans())
    def it_is_kept(self, times: int, crashes: bool) -> None:
        for _ in range(times):
            self.a_new_instance(keep=True)
            if crashes:
                self.the_broker_ends_and_starts(2, 0)

    def newest(self) -> Producer:
        if not self.producers:
            self.a_new_instance(keep=True)
        return self.producers[-1]

    @rule()
    def the_disk_fails_or_is_well_again(self, failing: bool = True) -> None:
        self.driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
        self.a_new_instance(keep=True)
        self.the_newest_ends(True, False, False)
        self.driver.append_error = None

    @rule(committed=OUTCOMES, released=st.booleans())
    def commits_take_time_or_not(
        self, holds: bool = True, committed: bool = True, released: bool = True
    ) -> None:
        self.driver.holds_commits = True
        self.the_newest_ends(committed, False, False)
        self.a_new_instance(keep=True)
        if released:
            self.driver.release()
        else:
            self.driver.crash(keeps=0)
        self.driver.holds_commits = False

    @rule()
    def overdue_transactions_are_aborted(self) -> None:
        assert self.driver.abort_overdue() == []

    @invariant()
    def no_abort_unasked(self) -> None:
        if not hasattr(self, "driver") or self.takes_over:
            return
        before = None
        for record in self.driver.log[: self.driver.committed]:
            assert record.value is not None
            value = decode_transaction_log_value(record.value)
            if before is not None and (before.transaction_status, value.transaction_status) == (
                State.ONGOING,
                State.PREPARE_ABORT,
            ):
                owner = (before.producer_id, before.producer_epoch)
                if before.next_producer_epoch >= 0:
                    owner = (before.next_producer_id, before.next_producer_epoch)
                assert owner in self.asked_to_abort
            before = value

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        self.driver.append_error, self.driver.holds_commits = None, False
        self.driver.release()
        self.driver.finish(ID)
        # Any new instance may keep an open transaction prepared, and end it.
        kept = self.driver.init(two_phase=True, keep=True).value
        if kept.ongoing_producer_id >= 0:
            self.driver.end(kept.producer_id, kept.producer_epoch, True)
            self.driver.finish(ID)
            assert self.driver.state is State.COMPLETE_COMMIT
        super().teardown()


TwoPhaseLives.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestTwoPhaseLives = TwoPhaseLives.TestCase
