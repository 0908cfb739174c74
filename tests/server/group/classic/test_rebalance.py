"""Rebalances with zombies and crashes (G2 to G6), and invariants over any sequence of them."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from oncelog_protocol.messages.join_group import JoinGroupResponse
from oncelog_protocol.messages.sync_group import SyncGroupResponse
from oncelog_server.deferred import Deferred
from oncelog_server.group.classic.states import GroupState
from tests.examples import examples
from tests.server.group.driver import GROUP, Driver, groups_of


def test_G2_a_member_of_the_old_generation_cannot_commit_offsets_in_a_transaction() -> None:
    driver = Driver()
    generation_id, (leader, follower) = driver.stable_group("a", "b")
    driver.join(leader)
    # During the join phase, the follower's generation is still the generation of the group.
    identity: dict[str, Any] = {"member_id": follower, "generation_id": generation_id}
    assert driver.txn_commit(7, ("t", 0, 5), **identity) == [0]
    driver.end_transaction(7, committed=False)
    driver.join(follower)
    assert driver.txn_commit(7, ("t", 0, 5), **identity) == [22]
    assert driver.fetch("t", 0, require_stable=True) == (-1, 0)


def test_G3_a_paused_member_is_removed_and_its_offset_commit_is_refused() -> None:
    driver = Driver()
    generation_id, (paused, _) = driver.stable_group("a", "b", session_ms=10_000)
    driver.advance(10_000)
    identity: dict[str, Any] = {"member_id": paused, "generation_id": generation_id}
    assert driver.txn_commit(7, ("t", 0, 5), **identity) == [25]
    assert driver.heartbeat(paused, generation_id) == 25


def test_G4_a_new_owner_waits_for_the_offset_of_an_open_transaction() -> None:
    driver = Driver()
    generation_id, (old, new) = driver.stable_group("a", "b")
    driver.txn_commit(7, ("t", 0, 5), member_id=old, generation_id=generation_id)
    driver.leave(old)
    driver.join(new)
    driver.sync(new, generation_id + 1, {new: b"t-0"})
    assert driver.fetch("t", 0, require_stable=True) == (-1, 88)
    driver.end_transaction(7, committed=True)
    assert driver.fetch("t", 0, require_stable=True) == (5, 0)


def test_G6_a_fail_over_in_the_join_phase_loses_the_rebalance_but_no_offset() -> None:
    driver = Driver()
    generation_id, (leader, follower) = driver.stable_group("a", "b")
    driver.txn_commit(7, ("t", 0, 5), member_id=leader, generation_id=generation_id)
    driver.join(leader)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    driver.crash()
    assert driver.state() is GroupState.STABLE
    assert driver.fetch("t", 0, require_stable=True) == (-1, 88)
    answer = driver.join(leader)
    assert driver.heartbeat(follower, generation_id) == 27
    driver.join(follower)
    assert answer.value.generation_id == generation_id + 1
    driver.end_transaction(7, committed=True)
    assert driver.fetch("t", 0, require_stable=True) == (5, 0)


def test_a_crash_before_the_assignment_restores_the_previous_generation() -> None:
    driver = Driver()
    generation_id, (leader, follower) = driver.stable_group("a", "b")
    driver.join(leader)
    driver.join(follower)
    driver.crash()
    assert driver.heartbeat(leader, generation_id + 1) == 22
    assert driver.sync(leader, generation_id + 1, {}).value.error_code == 22
    assert driver.heartbeat(leader, generation_id) == 0


class Client:
    """A member that behaves like a consumer: it joins, syncs its assignment, and sends
    heartbeats."""

    def __init__(self, name: str, *, static: bool) -> None:
        self.name = name
        self.instance = name if static else None
        self.member_id = ""
        self.joining: Deferred[JoinGroupResponse] | None = None
        self.syncing: Deferred[SyncGroupResponse] | None = None
        self.generation: JoinGroupResponse | None = None


class GroupOfClients(RuleBasedStateMachine):
    """Five clients join, leave, pause and crash. The coordinator crashes too, appends fail, commits
    are late.

    The assignment of each generation has its own stamp. The stamp reveals a member with the
    assignment of a different generation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.clients = [Client(f"c{number}", static=number > 2) for number in range(5)]
        # The assignments that members got, by generation.
        self.stamps: dict[int, str] = {}
        self.stamp = 0
        # The responses, sent or parked, of all requests to this process of the coordinator.
        self.owed: list[Deferred[JoinGroupResponse] | Deferred[SyncGroupResponse]] = []

    clients_ = st.integers(0, 4)

    @rule(numbers=st.sets(clients_, min_size=1))
    def settle(self, numbers: set[int]) -> None:
        """Let these clients join the group, and then sync if a generation has begun."""
        for _ in range(2):
            for number in sorted(numbers):
                if self.clients[number].generation is None:
                    self.join(number, 20_000, False)
        self.driver.advance(3_000)
        for number in sorted(numbers):
            self.sync(number)

    @rule(number=clients_, timeout=st.sampled_from([6_000, 20_000]), metadata=st.booleans())
    def join(self, number: int, timeout: int, metadata: bool) -> None:
        client = self.clients[number]
        if client.joining is not None and not client.joining.done:
            return
        client.joining = self.driver.join(
            client.member_id,
            instance=client.instance,
            client_id=client.name,
            session_ms=10_000,
            rebalance_ms=timeout,
            protocols={"range": b"1" if metadata else b"2", client.name: b""},
        )
        client.syncing = client.generation = None
        self.owed.append(client.joining)
        client.joining.on_complete(lambda answer: self.joined(client, answer))

    def joined(self, client: Client, answer: JoinGroupResponse) -> None:
        if answer.error_code == 0:
            client.member_id, client.generation = answer.member_id, answer
            if answer.leader == answer.member_id and not answer.skip_assignment:
                assert client.member_id in {member.member_id for member in answer.members}
        elif answer.error_code == 79:
            client.member_id = answer.member_id
        elif answer.error_code in (25, 82):
            client.member_id = ""

    @rule(number=clients_)
    def sync(self, number: int) -> None:
        client = self.clients[number]
        generation = client.generation
        if generation is None or (client.syncing is not None and not client.syncing.done):
            return
        assignments = None
        if generation.leader == client.member_id:
            self.stamp += 1
            assignments = {
                member.member_id: f"{self.stamp} {member.member_id}".encode()
                for member in generation.members
            }
        client.syncing = self.driver.sync(
            client.member_id,
            generation.generation_id,
            assignments,
            instance=client.instance,
            protocol_name=None,
        )
        self.owed.append(client.syncing)
        client.syncing.on_complete(lambda answer: self.synced(client, generation, answer))

    def synced(
        self, client: Client, generation: JoinGroupResponse, answer: SyncGroupResponse
    ) -> None:
        """Check that the assignments of all members of a generation have the same stamp. After an
        error code, forget the generation instead."""
        if answer.error_code != 0:
            self.outdated(client, answer.error_code)
            return
        assert self.driver.group().generation_id == generation.generation_id
        stamp, _, member_id = answer.assignment.decode().partition(" ")
        if client.instance is None:
            assert member_id == generation.member_id
        else:
            # The member may have returned under a new member id, with the assignment of its
            # instance.
            assert member_id.rpartition("-")[0] == client.instance
        assert self.stamps.setdefault(generation.generation_id, stamp) == stamp

    @rule(number=clients_)
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        if client.generation is not None:
            code = self.driver.heartbeat(
                client.member_id, client.generation.generation_id, instance=client.instance
            )
            self.outdated(client, code)

    def outdated(self, client: Client, code: int) -> None:
        """Forget the generation after an error code, as a consumer does. The client also forgets
        its member id if the coordinator does not know the id or has fenced it."""
        if code:
            client.generation = None
        if code in (25, 82):
            client.member_id = ""

    @rule(number=clients_)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        if client.member_id:
            self.driver.leave(client.member_id)
            self.pause(number)

    @rule(number=clients_)
    def pause(self, number: int) -> None:
        """End the client's process without a request. Its next process has no state."""
        self.clients[number] = Client(self.clients[number].name, static=number > 2)

    @rule(ms=st.sampled_from([500, 3_000, 6_000, 11_000]))
    def advance(self, ms: int) -> None:
        self.driver.advance(ms)

    @rule(fails=st.booleans())
    def fail_appends(self, fails: bool) -> None:
        self.driver.append_error = 19 if fails else None

    @rule()
    def hold_commits(self) -> None:
        self.driver.holds_commits = True

    @rule()
    def release_commits(self) -> None:
        self.driver.holds_commits = False
        self.driver.release_commits()

    @precondition(lambda self: not self.driver.holds_commits)
    @rule()
    def crash(self) -> None:
        self.driver.crash()
        self.owed.clear()
        self.stamps = {}
        for client in self.clients:
            client.joining = client.syncing = None

    @invariant()
    def counts_agree_with_the_members(self) -> None:
        for group in self.driver.groups.values():
            members = group.members.values()
            assert group.awaiting_join_count == sum(m.awaiting_join is not None for m in members)
            assert group.size_bytes == sum(member.size_bytes for member in members)
            names = [name for member in members for name, _ in member.protocols]
            counts = {name: names.count(name) for name in names}
            assert dict(group.supported_protocols) == counts
            assert group.static_members == {
                m.group_instance_id: m.member_id for m in members if m.is_static
            }
            assert group.leader_id in group.members or not group.members
            assert not set(group.pending_join_members) & set(group.members)
            assert set(group.pending_sync_members) <= set(group.members)
            assert (group.state is GroupState.EMPTY) <= (not group.members)

    @invariant()
    def an_awaited_member_has_a_timer(self) -> None:
        timers = self.driver.shard.table.timers
        for group in self.driver.groups.values():
            if group.state is GroupState.PREPARING_REBALANCE:
                assert ("join", GROUP) in timers
            if group.pending_sync_members:
                assert ("sync", GROUP) in timers
            for member_id in group.pending_join_members:
                assert ("session", GROUP, member_id) in timers
            for member in group.members.values():
                waits = member.awaiting_join is not None or member.awaiting_sync is not None
                assert waits or ("session", GROUP, member.member_id) in timers

    @invariant()
    def no_answer_is_forgotten(self) -> None:
        if self.driver.holds_commits:
            return
        parked = [
            wait.answer
            for group in self.driver.groups.values()
            for member in group.members.values()
            for wait in (member.awaiting_join, member.awaiting_sync)
            if wait is not None
        ]
        assert len(parked) == sum(not answer.done for answer in self.owed)

    @invariant()
    def a_settled_group_is_what_a_restart_would_load(self) -> None:
        group = self.driver.groups.get(GROUP)
        loaded = groups_of(self.driver.load()).get(GROUP)
        if group is None or self.driver.holds_commits or self.driver.append_error is not None:
            return
        assert loaded is not None
        if group.state is GroupState.STABLE and not group.pending_sync_members:
            assert loaded.generation_id == group.generation_id
            assert loaded.leader_id == group.leader_id
            assert {
                member.member_id: (member.assignment, member.group_instance_id)
                for member in loaded.members.values()
            } == {
                member.member_id: (member.assignment, member.group_instance_id)
                for member in group.members.values()
            }

    def teardown(self) -> None:
        """Check that without further requests the group becomes empty and no request stays
        parked."""
        driver = self.driver
        driver.append_error, driver.holds_commits = None, False
        driver.release_commits()
        driver.advance(400_000)
        assert all(answer.done for answer in self.owed)
        if GROUP in driver.groups:
            assert driver.state() is GroupState.EMPTY
            # If the record of the empty group was never written, the members are loaded again, and
            # time out once more.
            driver.crash()
            driver.advance(400_000)
            assert driver.state() is GroupState.EMPTY


GroupOfClients.TestCase.settings = settings(
    max_examples=examples(120),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestAfterAnySequence = GroupOfClients.TestCase
