"""A sink that commits by record, in the model. It sends the requests that `record_commit` sends. To
decide a batch, it runs the state machine of `record_steps`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

from oncelog_client.spark.sink.protocol import record_steps
from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.record_state import Entry, decode, encode
from oncelog_client.spark.sink.protocol.record_steps import (
    Append,
    Check,
    CheckParent,
    DecidedMemberLost,
    EndMembers,
)
from oncelog_client.spark.sink.protocol.refusals import Reason, Refusal
from oncelog_client.spark.sink.protocol.steps import (
    AbortOpen,
    Decide,
    Done,
    Fenced,
    FenceParent,
    Look,
    MemberGone,
    Open,
    OutcomeUnknown,
    Outdated,
    Raised,
    RollForward,
    Step,
    Stored,
)
from oncelog_client.values import TransactionMember

from . import requests
from .broker import Broker
from .machines import SINK_ID, Driving, Machines
from .requests import Describe, EndTxn, Holders, InitProducerId, Refused, Reply, Seen, Unanswered
from .sinks import Asks, Turn

_encode = lru_cache(maxsize=None)(encode)
_decode = lru_cache(maxsize=None)(decode)

# The inner state of the command FenceParent after a Look request has found no newer driver.
_INIT: Final = "init"


@dataclass(frozen=True)
class RecordSink(Machines):
    """A sink that commits by record. `two_phase`: with KIP-939, the members' transactions never
    time out."""

    two_phase: bool = True

    kind: ClassVar[CommitKind] = CommitKind.RECORD
    shows_parts: ClassVar[bool] = True

    def init_member(self, transactional_id: str, generation: int) -> InitProducerId:
        return InitProducerId(transactional_id, is_two_phase=self.two_phase)

    def decided(self, broker: Broker) -> int:
        entry = _entry(broker.newest)
        if entry is None:
            return 0
        return entry.state.offset if entry.unfinished is None else entry.unfinished.state.offset

    def perform(self, driving: Driving) -> Turn:
        match driving.command:
            case Look() | FenceParent():
                return Asks(driving, (requests.Look(),))
            case Open(_, parent, state):
                return Asks(driving, _appending(parent, Entry(state)))
            case AbortOpen(_, _, ids):
                asked = tuple(self.init_member(name, 0) for name in ids)
                return Asks(driving, asked, is_pipelined=True)
            case Decide() | RollForward() as asked:
                return self._inside(driving, record_steps.begin(asked, _state(driving.seen)))
        raise LookupError(driving.command)

    def perform_on(self, driving: Driving, asks: Asks, replies: tuple[Reply, ...]) -> Turn:
        match driving.command:
            case Decide() | RollForward():
                state, inner = driving.inner
                answer = _INNER[type(inner)](inner, replies, driving.seen)
                return self._inside(driving, record_steps.step(state, answer))
            case Open():
                return self.answered(driving, _appended(None, replies, None))
        if any(isinstance(reply, Unanswered) for reply in replies):
            return self.failed(driving)
        match driving.command:
            case Look(step):
                (seen,) = replies
                assert isinstance(seen, Seen)
                # Only the decision of a commit compares the members with the open transactions that
                # its Look has found.
                kept = seen if step is Step.COMMIT_READ else seen._replace(opened=Holders(()))
                return self.answered(driving._replace(seen=kept), _stored(seen))
            case FenceParent(_, generation) if driving.inner is None:
                (seen,) = replies
                assert isinstance(seen, Seen)
                entry = _entry(seen.newest)
                if entry is not None and entry.state.generation > generation:
                    return self.answered(driving, Outdated())
                return Asks(driving._replace(inner=_INIT), (InitProducerId(SINK_ID),))
            case FenceParent():
                (parent,) = replies
                assert isinstance(parent, TransactionMember)
                return self.answered(driving, Fenced(parent))
        return self.answered(driving, Done())

    def _inside(self, driving: Driving, following: tuple[Any, Any]) -> Turn:
        """Run the machine of a decision to its next command or its outcome."""
        state, inner = following
        match inner:
            case Check(members):
                unknown = tuple(
                    member[0] for member in members if not _found(driving.seen, member[0])
                )
                if not unknown:
                    answer = _checked(inner, (), driving.seen)
                    return self._inside(driving, record_steps.step(state, answer))
                asked: tuple[requests.Request, ...] = (Describe(unknown),)
            case Append(_, parent, entry):
                asked = _appending(parent, entry)
            case EndMembers(_, members):
                asked = tuple(EndTxn(member, True, bumps_epoch=True) for member in members)
            case CheckParent(parent):
                asked = (Describe((parent.transactional_id,)),)
            case DecidedMemberLost(member, detail):
                if isinstance(driving.command, RollForward):
                    return self.answered(driving, MemberGone(member, detail))
                return Raised(Refusal(Reason.DECIDED_MEMBER_LOST, member))
            case Outdated() if state.is_decided and isinstance(driving.command, Decide):
                return Raised(Refusal(Reason.FENCED, ""))
            case outcome:
                return self.answered(driving, outcome)
        return Asks(
            driving._replace(inner=(state, inner)),
            asked,
            is_pipelined=isinstance(inner, EndMembers),
        )


def _entry(newest: bytes | None) -> Entry | None:
    return None if newest is None else _decode(newest, SINK_ID)


def _state(seen: Seen | None) -> Any:
    entry = None if seen is None else _entry(seen.newest)
    return None if entry is None else entry.state


def _stored(seen: Seen) -> Stored:
    open_ids = tuple(member[0] for member in seen.opened.members if member[0] != SINK_ID)
    entry = _entry(seen.newest)
    return (
        Stored(None, open_ids) if entry is None else Stored(entry.state, open_ids, entry.unfinished)
    )


def _appending(parent: TransactionMember, entry: Entry) -> tuple[requests.Request, ...]:
    """Return the requests of an append. The group's offset is left out, because only tools read
    it."""
    return requests.Append(parent, _encode(entry)), EndTxn(parent, True)


def _found(seen: Seen, transactional_id: str) -> TransactionMember | None:
    return next((member for member in seen.opened.members if member[0] == transactional_id), None)


# --- responses to a decision's own requests


def _checked(check: Check, replies: tuple[Reply, ...], seen: Seen) -> Done | MemberGone:
    if any(isinstance(reply, Unanswered) for reply in replies):
        # It is unknown whether the members are open, so nothing is decided. The next Look finds the
        # same state.
        return MemberGone(check.members[0].transactional_id, "no answer")
    described = {member[0]: member for reply in replies for member in _members(reply)}
    for member in check.members:
        holder = described.get(member[0]) or _found(seen, member[0])
        if holder != member:
            return MemberGone(member[0], str(holder))
    return Done()


def _appended(
    append: Append | None, replies: tuple[Reply, ...], seen: Seen | None
) -> Done | Outdated | OutcomeUnknown:
    last = replies[-1]
    if isinstance(last, Unanswered):
        return OutcomeUnknown()
    return Outdated() if isinstance(last, Refused) else Done()


def _members_ended(
    end: EndMembers, replies: tuple[Reply, ...], seen: Seen
) -> Done | MemberGone | OutcomeUnknown:
    for member, reply in zip(end.members, replies, strict=False):
        if isinstance(reply, Refused):
            return MemberGone(member.transactional_id, reply.code.name)
    return OutcomeUnknown() if any(isinstance(reply, Unanswered) for reply in replies) else Done()


def _parent_checked(
    check: CheckParent, replies: tuple[Reply, ...], seen: Seen
) -> Done | Outdated | OutcomeUnknown:
    (reply,) = replies
    if isinstance(reply, Unanswered):
        return Outdated()
    return Done() if check.parent in _members(reply) else Outdated()


def _members(reply: Reply) -> tuple[TransactionMember, ...]:
    assert isinstance(reply, Holders)
    return reply.members


_INNER: Final[dict[type, Callable[..., Any]]] = {
    Check: _checked,
    Append: _appended,
    EndMembers: _members_ended,
    CheckParent: _parent_checked,
}
