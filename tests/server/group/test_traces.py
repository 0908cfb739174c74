"""Rebalances of classic groups as traces: `traces/*.txt` (KIP-62, KIP-345, KIP-394).

A member id is the client id, or the group instance id, with a number. `A-1:orders-0` assigns
`orders-0` to the member `A-1`. If a command changes the group, its last line shows the new state of
the group.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.consumer_protocol import decode_subscription
from oncelog_protocol.internal.group_metadata import (
    GroupMetadataKey,
    decode_group_metadata_value,
    decode_key,
)
from oncelog_protocol.messages.join_group import JoinGroupResponse
from oncelog_protocol.messages.leave_group import LeaveGroupResponse
from oncelog_protocol.messages.sync_group import SyncGroupResponse
from oncelog_server.group.classic.effects import (
    AssignmentWritten,
    GroupCreated,
    InitialRebalanceProlonged,
    JoinPhaseOver,
    MemberIdGiven,
    MemberJoined,
    MemberRejoined,
    MembersLeft,
    MemberTurnedAway,
    SessionOver,
    StaticMemberReplaced,
    StaticMemberReturned,
    SyncPhaseOver,
    SyncReceived,
)
from oncelog_server.group.effects import MemberSeen, SliceSwept
from tests.server.group.driver import GROUP, Driver
from tests.server.group.entries import Appended, Marker, subscription
from tests.server.traces import Command, Commands, EffectTexts, Trace, TracedLog, rewritten

TRACES = sorted(Path(__file__).with_name("traces").glob("*.txt"))


def topics(metadata: bytes) -> str:
    return ",".join(decode_subscription(metadata).topics) if metadata else "none"


def assigned(assignment: bytes) -> str:
    return assignment.decode() or "none"


def entry_text(entry: Appended | Marker) -> str:
    assert isinstance(entry, Appended)
    key = decode_key(entry.record.key)
    assert isinstance(key, GroupMetadataKey)
    assert entry.record.value is not None
    value = decode_group_metadata_value(entry.record.value)
    members = [
        f"{member.member_id}"
        f"({'' if member.group_instance_id is None else f'instance={member.group_instance_id} '}"
        f"subscription={topics(member.subscription)} assignment={assigned(member.assignment)})"
        for member in value.members
    ]
    return (
        f"append {key.group} generation={value.generation} type={value.protocol_type or 'none'} "
        f"protocol={value.protocol or 'none'} leader={value.leader or 'none'} "
        f"members={' '.join(members) or 'none'}"
    )


def code(number: int) -> str:
    return ErrorCode(number).name


def join_text(response: JoinGroupResponse) -> str:
    text = f"{code(response.error_code)} member={response.member_id or 'none'}"
    if response.error_code:
        return text
    members = [f"{member.member_id}({topics(member.metadata)})" for member in response.members]
    text += (
        f" generation={response.generation_id} protocol={response.protocol_name} "
        f"leader={response.leader} members={','.join(members) or 'none'}"
    )
    return f"{text} skip_assignment" if response.skip_assignment else text


def sync_text(response: SyncGroupResponse) -> str:
    text = code(response.error_code)
    return text if response.error_code else f"{text} assignment={assigned(response.assignment)}"


def leave_text(response: LeaveGroupResponse) -> str:
    members = [
        f" {member.member_id or member.group_instance_id}:{code(member.error_code)}"
        for member in response.members
    ]
    return code(response.error_code) + "".join(members)


SHOWN: EffectTexts = {
    MemberSeen: lambda effect: effect.member_id,
    SliceSwept: None,
    MemberIdGiven: None,
    MemberJoined: None,
    MemberRejoined: None,
    StaticMemberReturned: None,
    MemberTurnedAway: None,
    MembersLeft: None,
    SessionOver: None,
    InitialRebalanceProlonged: None,
    JoinPhaseOver: None,
    SyncPhaseOver: None,
    SyncReceived: lambda effect: effect.member_id,
    AssignmentWritten: lambda effect: f"generation={effect.generation_id}",
    GroupCreated: None,
    StaticMemberReplaced: lambda effect: f"{effect.old_member_id} by {effect.member_id}",
}


class Scenario:
    """A coordinator of the group `g`. Commands of the trace let time pass, timer by timer."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.driver = Driver(
            now_ms=0,
            log=TracedLog(lambda entry: self.trace.add(entry_text(entry))),
        )
        self.driver.effects = self.trace.effects(self.driver.effects, SHOWN)
        commands: dict[str, Callable[[Command], None]] = {
            "join": self.join,
            "sync": self.sync,
            "heartbeat": self.heartbeat,
            "leave": self.leave,
            "pass": self.pass_time,
            "hold-commits": self.hold_commits,
            "release-commits": self.release_commits,
            "fail-appends": self.fail_appends,
            "mend-appends": self.mend_appends,
            "crash": self.crash,
        }
        self.commands: Commands = {
            name: partial(self._run, command) for name, command in commands.items()
        }

    def _run(self, run: Callable[[Command], None], command: Command) -> None:
        before = self.group_text()
        run(command)
        if self.group_text() != before:
            self.trace.add(self.group_text())

    def group_text(self) -> str:
        group = self.driver.groups.get(GROUP)
        if group is None:
            return "group none"
        return (
            f"group {group.state.name} generation={group.generation_id} "
            f"leader={group.leader_id or 'none'} members={','.join(group.members) or 'none'}"
        )

    # --- requests

    def join(self, command: Command) -> None:
        """JoinGroup v9 of a client. `member` is the member id, if the client has one."""
        client_id = command.word()
        wanted = command.take("topics", "orders").split(",")
        answer = self.driver.join(
            command.take("member", ""),
            instance=command.take("instance", "") or None,
            client_id=client_id,
            protocols={"range": subscription(*wanted)},
            session_ms=command.number("session", 10_000),
        )
        self.trace.response(f"join of {client_id}", answer, join_text)

    def sync(self, command: Command) -> None:
        """SyncGroup v5. The leader's request has assignments."""
        member_id = command.word()
        answer = self.driver.sync(
            member_id,
            command.number("generation", -1),
            {
                name: assignment.encode()
                for name, _, assignment in (word.partition(":") for word in command.all_words())
            },
            instance=command.take("instance", "") or None,
        )
        self.trace.response(f"sync of {member_id}", answer, sync_text)

    def heartbeat(self, command: Command) -> None:
        member_id = command.word()
        error_code = self.driver.heartbeat(
            member_id,
            command.number("generation", -1),
            instance=command.take("instance", "") or None,
        )
        self.trace.add(f"response to heartbeat of {member_id}: {code(error_code)}")

    def leave(self, command: Command) -> None:
        """LeaveGroup v5. `instance` is a group instance id that an administrator removes."""
        instance = command.take("instance", "")
        answer = self.driver.leave(*command.all_words(), instances=[instance] if instance else [])
        self.trace.response("leave", answer, leave_text)

    # --- time, disk, crashes

    def pass_time(self, command: Command) -> None:
        self.driver.advance(int(command.word()))

    def hold_commits(self, command: Command) -> None:
        self.driver.holds_commits = True

    def release_commits(self, command: Command) -> None:
        self.driver.holds_commits = False
        self.driver.release_commits()

    def fail_appends(self, command: Command) -> None:
        self.driver.append_error = ErrorCode[command.word()]

    def mend_appends(self, command: Command) -> None:
        self.driver.append_error = None

    def crash(self, command: Command) -> None:
        """Another coordinator loads the log."""
        self.driver.crash()


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_scenario_has_the_results_of_its_trace(path: Path) -> None:
    scenario = Scenario()
    expected, found = rewritten(path, scenario.commands, scenario.trace)
    assert found == expected


def test_there_are_traces() -> None:
    assert TRACES
