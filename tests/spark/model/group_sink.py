"""A model of the sink that commits by group: it sends the requests that `group_commit` sends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.state import decode, encode
from oncelog_client.spark.sink.protocol.steps import (
    AbortOpen,
    Command,
    Decide,
    Done,
    Fenced,
    FenceParent,
    Look,
    MemberGone,
    Open,
    OutcomeUnknown,
    Outdated,
    Result,
    Stage,
    Stored,
)
from oncelog_client.values import TransactionMember
from oncelog_protocol.errors import ErrorCode

from . import requests
from .broker import Broker
from .machines import SINK_ID, Driving, Machines
from .requests import (
    EndTxn,
    FetchOffset,
    InitProducerId,
    ListTransactions,
    Refused,
    Reply,
    Request,
    TxnOffsetCommit,
    Unanswered,
)
from .sinks import Asks, Turn

# Error codes from which the client concludes that a newer producer exists.
_FENCES: Final = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}
_AGAIN: Final = "again"

_encode = lru_cache(maxsize=None)(encode)
_decode = lru_cache(maxsize=None)(decode)


@dataclass(frozen=True)
class GroupSink(Machines):
    """A sink that commits by group. `splits_looks`: the two requests of a Look command are
    two steps, not one."""

    splits_looks: bool = False

    kind: ClassVar[CommitKind] = CommitKind.GROUP
    shows_parts: ClassVar[bool] = False

    def init_member(self, transactional_id: str, generation: int) -> InitProducerId:
        return InitProducerId(transactional_id, generation)

    def decided(self, broker: Broker) -> int:
        return 0 if broker.stored is None else broker.stored.offset

    def perform(self, driving: Driving) -> Turn:
        return Asks(driving, *self._requests(driving.command))

    def perform_on(self, driving: Driving, asks: Asks, replies: tuple[Reply, ...]) -> Turn:
        command = driving.command
        unknown = isinstance(command, Decide) and isinstance(replies[-1], Unanswered)
        if unknown and driving.inner is None:
            return Asks(driving._replace(inner=_AGAIN), asks.requests)
        answer = _answer(command, replies)
        return self.failed(driving) if answer is None else self.answered(driving, answer)

    def _requests(self, command: Command) -> tuple[tuple[Request, ...], bool]:
        """Return the requests of a command, and True to send all of them whatever the responses."""
        match command:
            case Look() if self.splits_looks:
                return (FetchOffset(), ListTransactions()), True
            case Look():
                return (requests.Look(),), False
            case FenceParent(_, generation):
                return (InitProducerId(SINK_ID, generation),), False
            case Open(_, parent, state):
                return (TxnOffsetCommit(parent, _encode(state)), EndTxn(parent, True)), False
            case Stage(_, parent, state):
                return (TxnOffsetCommit(parent, _encode(state)),), False
            case Decide(_, parent, members):
                return (EndTxn(parent, True, members),), False
            case AbortOpen(_, generation, ids):
                return tuple(InitProducerId(name, generation) for name in ids), True
        raise LookupError(command)


def _answer(command: Command, replies: tuple[Reply, ...]) -> Result | None:
    """Return the answer that `group_commit` derives from the responses, or None for a
    KafkaError."""
    unanswered = any(isinstance(reply, Unanswered) for reply in replies)
    if isinstance(command, Look):
        return None if unanswered else _stored(replies)
    refused = next((reply for reply in replies if isinstance(reply, Refused)), None)
    if refused is not None:
        if refused.member is not None:
            return MemberGone(refused.member, refused.code.name)
        if refused.code in _FENCES:
            return Outdated()
        assert refused.code is ErrorCode.INVALID_TXN_STATE, refused
        assert isinstance(command, Decide | Open), (command, refused)
        return MemberGone(SINK_ID, refused.code.name)
    if unanswered:
        ends = isinstance(command, Decide) or (isinstance(command, Open) and len(replies) > 1)
        return OutcomeUnknown() if ends else None
    if isinstance(command, FenceParent):
        (parent,) = replies
        assert isinstance(parent, TransactionMember)
        return Fenced(parent)
    return Done()


def _stored(replies: tuple[Reply, ...]) -> Stored:
    match replies:
        case (requests.Seen(stored, opened),):
            pass
        case (requests.Stored() as stored, requests.Holders() as opened):
            pass
        case _:
            raise LookupError(replies)
    state = None if stored.offset is None else _decode(stored.offset, SINK_ID)
    return Stored(state, tuple(member[0] for member in opened.members if member[0] != SINK_ID))
