"""After any sequence of rebalances, zombies, group commits, failures and crashes, the live state
equals the replayed state. Group commits are complete, and no older generation commits."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from oncelog_protocol.errors import ErrorCode
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.metadata import GroupedTransaction
from oncelog_server.transaction.results import TransactionResult
from tests.examples import examples
from tests.server.transaction.driver import P0, P1, P2, loaded
from tests.server.transaction.grouped.auditor import audit_groups
from tests.server.transaction.grouped.driver import IN0, IN1, IN2, GroupDriver

IDS = st.sampled_from(["a", "b", "c", "d"])
INPUTS = st.sets(st.sampled_from([IN0, IN1, IN2]))
OUTPUTS = st.sets(st.sampled_from([P0, P1, P2]), min_size=1)


class Groups(RuleBasedStateMachine):
    """A group of four processes. A process uses the last response that it has received. `zombies`
    use earlier responses."""

    @initialize(finishes=st.booleans())
    def start(self, finishes: bool) -> None:
        self.driver = GroupDriver(finishes=finishes)
        self.generation = 1
        self.members: dict[str, GroupedTransaction] = {}
        self.zombies: list[GroupedTransaction] = []

    @rule(name=IDS, inputs=INPUTS, behind=st.integers(0, 1))
    def one_initialises(self, name: str, inputs: set[TopicPartition], behind: int) -> None:
        generation = self.generation - behind

        def seen(result: TransactionResult) -> None:
            if result.code is ErrorCode.NONE:
                if name in self.members:
                    self.zombies.append(self.members[name])
                self.members[name] = GroupedTransaction(
                    name, result.producer_id, result.producer_epoch
                )

        self.driver.join(name, generation, *inputs).on_complete(seen)

    @rule()
    def the_group_rebalances(self) -> None:
        self.generation += 1

    @rule(data=st.data(), outputs=OUTPUTS, version=st.sampled_from([0, 2]))
    def one_writes(self, data: st.DataObject, outputs: set[TopicPartition], version: int) -> None:
        for member in self.some(data, 1):
            if not self.driver.shard.groups.is_outdated(member.transactional_id):
                self.driver.begin(member, *outputs, version=version)

    @rule(data=st.data(), committed=st.booleans(), bumps_epoch=st.booleans())
    def all_end_together(self, data: st.DataObject, committed: bool, bumps_epoch: bool) -> None:
        parent, *others = self.some(data, 3) or [GroupedTransaction("unknown", 0, 0)]
        if not self.driver.shard.groups.is_outdated(parent.transactional_id):
            self.driver.commit_group(parent, *others, committed=committed, bumps_epoch=bumps_epoch)

    @rule(
        names=st.lists(IDS, min_size=2, unique=True),
        committed=st.booleans(),
        crashes=st.none() | st.integers(0, 6),
        data=st.data(),
    )
    def a_batch_is_written_and_decided(
        self, names: list[str], committed: bool, crashes: int | None, data: st.DataObject
    ) -> None:
        """Let several members join and begin, and end all their transactions in one group commit.
        Sometimes a member is outdated, or the broker crashes."""
        for name in names:
            self.one_initialises(name, set(), 0)
        members = [self.members[name] for name in names if name in self.members]
        for member in members:
            if not self.driver.shard.groups.is_outdated(member.transactional_id):
                self.driver.begin(member, P0)
        if self.zombies and data.draw(st.integers(0, 3)) == 0:
            members[1:2] = self.zombies[-1:]
        if members and not self.driver.shard.groups.is_outdated(members[0].transactional_id):
            if crashes is not None:
                self.driver.holds_commits = True
            self.driver.commit_group(*members, committed=committed)
        if crashes is not None:
            self.driver.holds_commits = False
            self.the_broker_ends_and_starts(crashes)

    @rule(data=st.data(), committed=st.booleans())
    def one_ends(self, data: st.DataObject, committed: bool) -> None:
        for member in self.some(data, 1):
            if not self.driver.shard.groups.is_outdated(member.transactional_id):
                name = member.transactional_id
                self.driver.end(*member[1:], committed, transactional_id=name)

    def some(self, data: st.DataObject, at_most: int) -> list[GroupedTransaction]:
        """Draw members, including zombies, with the producer id and epoch that each has
        received."""
        pool = [*self.members.values(), *self.zombies[-2:]]
        if not pool:
            return []
        return data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=at_most))

    @rule(name=IDS)
    def one_is_finished(self, name: str) -> None:
        self.driver.finish(name)

    @rule()
    def time_is_up(self) -> None:
        self.driver.now_ms += 60_000
        self.driver.abort_overdue()

    @rule(failing=st.booleans())
    def the_disk_fails_or_is_well_again(self, failing: bool) -> None:
        self.driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR if failing else None

    @rule(holds=st.booleans())
    def commits_take_time_or_not(self, holds: bool) -> None:
        self.driver.holds_commits = holds
        if not holds:
            self.driver.release()

    @rule(keeps=st.integers(0, 6))
    def the_broker_ends_and_starts(self, keeps: int) -> None:
        self.driver.append_error = None
        self.driver.crash(keeps=keeps)

    @invariant()
    def live_state_is_replayed_state(self) -> None:
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        fresh = loaded(driver.log[: driver.committed], 0, driver.max_timeout_ms)
        live = driver.shard
        assert fresh.groups.memberships == live.groups.memberships
        assert fresh.groups.newest_generation("g") == live.groups.newest_generation("g")
        assert {name: transaction.metadata for name, transaction in fresh.transactions.items()} == {
            name: transaction.metadata
            for name, transaction in live.transactions.items()
            if transaction.metadata.last_update_ms >= 0
        }

    @invariant()
    def the_auditor_finds_nothing(self) -> None:
        if hasattr(self, "driver"):
            audit_groups(self.driver.log, self.driver.batches)

    def teardown(self) -> None:
        """Check that without further faults the newest generation works, and commits as a whole."""
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        driver.append_error, driver.holds_commits = None, False
        driver.release()
        names = ["a", "b", "c"]
        members = []
        for name, inputs in zip(names, (IN0, IN1, IN2), strict=True):
            for _ in range(3):
                for other in [*names, "d"]:
                    driver.finish(other)
                result = driver.join(name, self.generation + 1, inputs).value
            assert result.code is ErrorCode.NONE
            members.append(GroupedTransaction(name, result.producer_id, result.producer_epoch))
            driver.begin(members[-1], P0)
        before = audit_groups(driver.log, driver.batches)
        driver.commit_group(*members)
        assert audit_groups(driver.log, driver.batches) == before + 1


Groups.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestGroups = Groups.TestCase
