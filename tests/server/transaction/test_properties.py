"""After any sequence of requests, failures, crashes and timeouts, the live state equals the
replayed state. An independent check (`Auditor`) finds no violated promise of KIP-98 and KIP-890."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from oncelog_protocol.errors import ErrorCode
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.states import State
from tests.examples import examples
from tests.server.transaction.auditor import Auditor, Identity
from tests.server.transaction.driver import ID, P0, P1, P2, Answer, Driver, loaded

PARTITIONS = st.sets(st.sampled_from([P0, P1, P2]), min_size=1)


@dataclass
class Producer:
    """A producer process. It uses the last response that it has received."""

    number: int
    identity: Identity | None = None


class Lives(RuleBasedStateMachine):
    """One transactional id, its producers including zombies, and every event that may happen to
    them."""

    @initialize(near_the_end=st.booleans(), finishes=st.booleans())
    def start(self, near_the_end: bool, finishes: bool) -> None:
        self.driver = Driver(finishes=finishes)
        self.auditor = Auditor()
        self.producers: list[Producer] = []
        self.started_ms: int | None = None
        if near_the_end:
            self.driver.put(
                State.EMPTY,
                producer_id=77,
                producer_epoch=LAST_PRODUCER_EPOCH - 1,
                last_producer_epoch=-1,
            )

    def answered(
        self, response: Answer, producer: Producer, asked: Identity, ends: bool | None, v2: bool
    ) -> None:
        def seen(result: TransactionResult) -> None:
            if result.code is not ErrorCode.NONE:
                return
            if ends is not None:
                self.auditor.ended.append((asked, ends))
            if ends is None or v2:
                identity = (result.producer_id, result.producer_epoch)
                self.auditor.gives(identity, producer.number)
                producer.identity = identity

        response.on_complete(seen)

    @rule()
    def a_new_instance(self) -> None:
        producer = Producer(len(self.producers))
        self.producers.append(producer)
        self.answered(self.driver.init(), producer, (-1, -1), None, False)

    @rule(data=st.data())
    def it_asks_again(self, data: st.DataObject) -> None:
        """Let an instance without a producer id repeat its InitProducerId, or any other instance
        bump its epoch."""
        producer = self.one(data)
        if producer.identity is None:
            self.answered(self.driver.init(), producer, (-1, -1), None, False)
        else:
            self.answered(
                self.driver.init(*producer.identity), producer, producer.identity, None, False
            )

    @rule(data=st.data(), partitions=PARTITIONS)
    def it_adds(self, data: st.DataObject, partitions: set[TopicPartition]) -> None:
        producer = self.one(data)
        if producer.identity is not None:
            self.driver.add(*producer.identity, *partitions)

    @rule(data=st.data())
    def it_adds_one_after_another(self, data: st.DataObject) -> None:
        producer = self.one(data)
        for partition in (P0, P1, P2):
            if producer.identity is not None:
                self.driver.add(*producer.identity, partition)
                self.driver.now_ms += 1_000

    @rule(data=st.data(), committed=st.booleans())
    def it_ends(self, data: st.DataObject, committed: bool) -> None:
        producer = self.one(data)
        if producer.identity is not None:
            response = self.driver.end(*producer.identity, committed)
            self.answered(response, producer, producer.identity, committed, True)

    def one(self, data: st.DataObject) -> Producer:
        if not self.producers:
            self.a_new_instance()
        return data.draw(st.sampled_from(self.producers))

    @rule(by_ms=st.sampled_from([1, 20_000, 60_000]))
    def time_passes(self, by_ms: int) -> None:
        self.driver.now_ms += by_ms

    @rule()
    def overdue_transactions_are_aborted(self) -> None:
        live = self.driver.shard.get(ID)
        due = (
            live is not None
            and live.pending is None
            and live.metadata.state is State.ONGOING
            and self.driver.wall_ms >= live.metadata.start_ms + live.metadata.timeout_ms
        )
        assert self.driver.abort_overdue() == ([ID] if due else [])

    @rule(at_most=st.integers(1, 3))
    def markers_are_written(self, at_most: int) -> None:
        self.driver.write_markers(ID, at_most)

    @rule()
    def the_transaction_is_finished(self) -> None:
        self.driver.finish(ID)

    @rule(failing=st.booleans())
    def the_disk_fails_or_is_well_again(self, failing: bool) -> None:
        self.driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR if failing else None

    @rule(holds=st.booleans())
    def commits_take_time_or_not(self, holds: bool) -> None:
        self.driver.holds_commits = holds
        if not holds:
            self.driver.release()

    @rule(keeps=st.integers(0, 2), down_ms=st.sampled_from([0, 30_000]))
    def the_broker_ends_and_starts(self, keeps: int, down_ms: int) -> None:
        self.driver.append_error = None
        self.driver.crash(keeps=keeps, down_ms=down_ms)

    @invariant()
    def live_state_is_replayed_state(self) -> None:
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        fresh = loaded(driver.log[: driver.committed], 0, driver.max_timeout_ms)
        assert {name: transaction.metadata for name, transaction in fresh.transactions.items()} == {
            name: transaction.metadata
            for name, transaction in driver.shard.transactions.items()
            if transaction.metadata.last_update_ms >= 0
        }
        assert list(fresh.ongoing) == list(driver.shard.ongoing)
        assert list(fresh.prepared) == list(driver.shard.prepared)

    @invariant()
    def the_auditor_finds_nothing(self) -> None:
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        self.auditor.audit(driver.log[: driver.committed], driver.markers)

    def teardown(self) -> None:
        """Check that without further faults the id is usable (I8, I17)."""
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        driver.append_error, driver.holds_commits = None, False
        driver.release()
        for _ in range(2):
            driver.finish(ID)
            driver.init()
        driver.finish(ID)
        result = driver.init().value
        assert result.code is ErrorCode.NONE
        driver.add(result.producer_id, result.producer_epoch, P0)
        driver.end(result.producer_id, result.producer_epoch, True)
        driver.finish(ID)
        assert driver.state is State.COMPLETE_COMMIT
        assert not driver.live.waiting
        self.auditor.audit(driver.log, driver.markers)


Lives.TestCase.settings = settings(
    max_examples=examples(80),
    stateful_step_count=35,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestLives = Lives.TestCase
