"""A coordinator runtime in memory. It appends records to a list, replays them and sends responses.

Time is a number. Every response is encoded in its version, so that the test fails if the version
cannot express the response. Commits can be held back, and appends can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from oncelog_protocol.codecs import encode
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.group_metadata import (
    GroupMetadataKey,
    decode_group_metadata_value,
    decode_key,
)
from oncelog_protocol.messages.delete_groups import DeletableGroupResult
from oncelog_protocol.messages.heartbeat import HeartbeatRequest
from oncelog_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from oncelog_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog_protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from oncelog_protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog_server.coordinator.runtime import carry_out
from oncelog_server.coordinator.shard import (
    COMMITTED,
    FAILED,
    TAKEN,
    CoordinatorRecord,
    Decision,
    EffectTable,
    Park,
)
from oncelog_server.deferred import Deferred
from oncelog_server.group.classic.group import ClassicGroup
from oncelog_server.group.classic.records import group_record
from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.moment import Caller
from oncelog_server.group.shard import EFFECTS, GroupShard
from tests.server.coordinator.frozen import reading
from tests.server.group.entries import Appended, Marker, replay, subscription

Q = TypeVar("Q")
R = TypeVar("R")

WALL_MS = 1_700_000_000_000
GROUP = "g"

Commit = tuple[str, int, int]  # (topic, partition, offset)


@dataclass
class Driver:
    """A coordinator runtime with one shard. `log` survives a `crash`, as a file on disk does."""

    config: GroupConfig = field(default_factory=GroupConfig)
    now_ms: int = 1_000
    log: list[Appended | Marker] = field(default_factory=list)
    # Error code of every append, or None if appends succeed.
    append_error: int | None = None
    # The log accepts no larger batch, by the size of keys and values.
    append_bytes_max: int = 1 << 20
    # If True, commits wait for `release_commits`.
    holds_commits: bool = False
    # If True, the state is compared before and after each decision. This is slow for a large state.
    compares: bool = True
    effects: EffectTable[GroupShard] = field(default_factory=lambda: EFFECTS)

    def __post_init__(self) -> None:
        self._names = 0
        # For each decision with a held commit: the callbacks for success and failure.
        self._held: list[tuple[Callable[[], None], Callable[[int], None]]] = []
        self.shard = self.load()

    # --- the log

    def load(self) -> GroupShard:
        """Return a shard that has replayed the log."""
        shard = GroupShard(self.config, new_member_id=self._new_member_id)
        for offset, entry in enumerate(self.log):
            replay(shard, entry, offset)
        shard.on_loaded(self.now_ms, self.wall_ms)
        return shard

    def crash(self) -> None:
        """End the process, and load the log in a new process."""
        self._held.clear()
        self.shard = self.load()

    def _new_member_id(self, name: str) -> str:
        self._names += 1
        return f"{name}-{self._names}"

    def decide(
        self, decide: Callable[[Q, Caller], Decision[R]], request: Q, caller: Caller
    ) -> Decision[R]:
        """Make a decision, and check that this does not change the state."""
        self.shard.table.latest = caller
        if not self.compares:
            return decide(request, caller)
        return reading(self.shard, decide, request, caller)

    def run(self, decision: Decision[R], version: int | None = None) -> Deferred[R]:
        """Carry out a decision as the runtime does."""
        answer: Deferred[R] = Deferred()
        if version is not None:
            answer.on_complete(partial(_encode, version))
        shard = self.shard
        generations = {name: group.generation_id for name, group in self._compared_groups()}
        carry_out(self.effects, TAKEN, shard, decision.effects)
        emptied = {
            group_record(group, {})
            for name, group in self._compared_groups()
            if group.state is GroupState.EMPTY and group.generation_id > generations.get(name, 0)
        }
        if self.compares:
            assert set(filter(_is_emptied, decision.records)) == emptied
        response: Any = decision.response
        if isinstance(decision.response, Park):
            response = Deferred()
            shard.park(decision.response, response)

        def fail(code: int) -> None:
            carry_out(self.effects, FAILED, shard, decision.effects, code)
            answer.complete(response if decision.failed is None else decision.failed(code))

        if decision.records and self.append_error is not None:
            fail(self.append_error)
            return answer
        size = sum(len(record.key) + len(record.value or b"") for record in decision.records)
        if size > self.append_bytes_max:
            fail(ErrorCode.MESSAGE_TOO_LARGE)
            return answer
        for record in decision.records:
            self.append(Appended(record, decision.transaction))

        def release() -> None:
            carry_out(self.effects, COMMITTED, shard, decision.effects)
            if isinstance(response, Deferred):
                response.on_complete(answer.complete)
            else:
                answer.complete(response)

        if decision.records and self.holds_commits:
            self._held.append((release, fail))
        else:
            release()
        return answer

    def _compared_groups(self) -> list[tuple[str, ClassicGroup]]:
        return list(self.groups.items()) if self.compares else []

    def append(self, entry: Appended | Marker) -> None:
        """Append at the end of the log, and replay at once."""
        self.log.append(entry)
        replay(self.shard, entry, len(self.log) - 1)

    def release_commits(self) -> None:
        """Move the high watermark to the end of the log."""
        held, self._held = self._held, []
        for release, _ in held:
            release()

    def lose_leadership(self) -> None:
        """Let another broker lead the partition, so that uncommitted records are never
        committed."""
        self.shard.on_unloaded()
        self.fail_commits(6)

    def fail_commits(self, code: int) -> None:
        """Fail every held commit, as if its records could never be committed."""
        held, self._held = self._held, []
        for _, fail in held:
            fail(code)

    # --- time

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    def advance(self, ms: int) -> None:
        """Let time pass, timer by timer."""
        end_ms = self.now_ms + ms
        while (timer := self.shard.next_timer()) is not None and timer <= end_ms:
            self.now_ms = max(self.now_ms, timer)
            self.expire()
        self.now_ms = end_ms

    def expire(self) -> list[Decision[None]]:
        """Decide and run everything due now. Return the decisions."""
        decisions = []
        for decide in self.shard.due(self.now_ms, self.wall_ms):
            decision = reading(self.shard, decide) if self.compares else decide()
            if decision is not None:
                self.run(decision)
                decisions.append(decision)
        return decisions

    def caller(self, version: int, client_id: str = "client") -> Caller:
        return Caller(
            api_version=version,
            client_id=client_id,
            client_host="/127.0.0.1",
            now_ms=self.now_ms,
            wall_ms=self.wall_ms,
        )

    # --- requests

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        version: int = 9,
        instance: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        client_id: str = "client",
    ) -> Deferred[JoinGroupResponse]:
        if protocols is None:
            protocols = {"range": subscription()}
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols.items()
            ],
        )
        decision = self.decide(self.shard.join_group, request, self.caller(version, client_id))
        return self.run(decision, version)

    def join_twice(self, **options: Any) -> Deferred[JoinGroupResponse]:
        """Join as clients do since KIP-394: get a member id, then join with it."""
        first = self.join(**options).value
        assert first.error_code == 79
        return self.join(first.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = GROUP,
        version: int = 5,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Deferred[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=assignment)
                for name, assignment in (assignments or {}).items()
            ],
        )
        decision = self.decide(self.shard.sync_group, request, self.caller(version))
        return self.run(decision, version)

    def heartbeat(
        self,
        member_id: str,
        generation_id: int,
        *,
        group: str = GROUP,
        instance: str | None = None,
        version: int = 4,
    ) -> int:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
        )
        decision = self.decide(self.shard.heartbeat, request, self.caller(version))
        return self.run(decision, version).value.error_code

    def leave(
        self,
        *member_ids: str,
        group: str = GROUP,
        instances: Iterable[str] = (),
        version: int = 5,
    ) -> Deferred[LeaveGroupResponse]:
        request = LeaveGroupRequest(group_id=group)
        if version < 3:
            (request.member_id,) = member_ids
        else:
            request.members = [MemberIdentity(member_id=name) for name in member_ids]
            request.members += [MemberIdentity(group_instance_id=name) for name in instances]
        decision = self.decide(self.shard.leave_group, request, self.caller(version))
        return self.run(decision, version)

    def commit(
        self,
        *commits: Commit,
        group: str = GROUP,
        member_id: str = "",
        generation_id: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        version: int = 9,
    ) -> list[int]:
        """Return the error code of each partition."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for topic, partition, offset in commits
            ],
        )
        decision = self.decide(self.shard.offset_commit, request, self.caller(version))
        response = self.run(decision, version).value
        return [partition.error_code for topic in response.topics for partition in topic.partitions]

    def txn_commit(
        self,
        producer_id: int,
        *commits: Commit,
        group: str = GROUP,
        member_id: str = "",
        generation_id: int = -1,
        instance: str | None = None,
        metadata: Mapping[Commit, str] | None = None,
        version: int = 5,
    ) -> list[int]:
        """Return the error code of each partition."""
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=commit[0],
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=commit[1],
                            committed_offset=commit[2],
                            committed_metadata=(metadata or {}).get(commit),
                        )
                    ],
                )
                for commit in commits
            ],
        )
        decision = self.decide(self.shard.txn_offset_commit, request, self.caller(version))
        response = self.run(decision, version).value
        return [partition.error_code for topic in response.topics for partition in topic.partitions]

    def delete(self, *groups: str) -> Deferred[list[DeletableGroupResult]]:
        return self.run(reading(self.shard, self.shard.delete_groups, groups))

    def delete_offsets(self, request: OffsetDeleteRequest) -> Deferred[OffsetDeleteResponse]:
        return self.run(self.decide(self.shard.offset_delete, request, self.caller(0)), 0)

    def topics_deleted(self, *topics: str) -> list[Decision[None]]:
        """Run the decisions that follow the deletion of these topics. Return the decisions."""
        decisions = reading(self.shard, self.shard.on_topics_deleted, frozenset(topics))
        for decision in decisions:
            self.run(decision)
        return decisions

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Append the producer's marker to the log."""
        self.append(Marker(producer_id, committed))

    def fetch(
        self, topic: str, partition: int, *, group: str = GROUP, require_stable: bool = False
    ) -> tuple[int, int]:
        """Return (committed offset, error code) of one partition."""
        request = OffsetFetchRequestGroup(
            group_id=group,
            topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])],
        )
        fetch = partial(self.shard.offset_fetch, request, require_stable=require_stable)
        decision = reading(self.shard, fetch) if self.compares else fetch()
        (found,) = self.run(decision).value.topics[0].partitions
        return found.committed_offset, found.error_code

    # --- reading

    @property
    def groups(self) -> dict[str, ClassicGroup]:
        return groups_of(self.shard)

    def group(self, group: str = GROUP) -> ClassicGroup:
        return self.groups[group]

    def state(self, group: str = GROUP) -> GroupState:
        return found.state if (found := self.groups.get(group)) else GroupState.DEAD

    def stable_group(self, *names: str, **options: Any) -> tuple[int, list[str]]:
        """Make a stable group with one member for each client id. Return the generation and the
        member ids."""
        joins = [self.join_twice(client_id=name, **options) for name in names]
        while not joins[0].done:
            self.advance(1_000)
        answers = [join.value for join in joins]
        assert {answer.error_code for answer in answers} == {0}
        generation_id = answers[0].generation_id
        assignments = {answer.member_id: answer.member_id.encode() for answer in answers}
        leader = next(answer for answer in answers if answer.leader == answer.member_id)
        group = options.get("group", GROUP)
        for answer in sorted(answers, key=lambda answer: answer is leader):
            self.sync(
                answer.member_id,
                generation_id,
                assignments if answer is leader else None,
                group=group,
                protocol_type=None,
                protocol_name=leader.protocol_name,
            )
        assert self.state(group) is GroupState.STABLE
        return generation_id, [answer.member_id for answer in answers]


def groups_of(shard: GroupShard) -> dict[str, ClassicGroup]:
    """Return all classic groups by group id."""
    return {
        name: group for name, group in shard.table.groups.items() if isinstance(group, ClassicGroup)
    }


def _is_emptied(record: CoordinatorRecord) -> bool:
    """Return True for the record of a group that has lost its last member."""
    if record.value is None or not isinstance(decode_key(record.key), GroupMetadataKey):
        return False
    value = decode_group_metadata_value(record.value)
    return value.generation > 0 and not value.members


def _encode(version: int, response: object) -> None:
    assert encode(response, version)
