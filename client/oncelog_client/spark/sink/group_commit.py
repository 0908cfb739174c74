"""The commit by group: oncelog decides a whole batch by one EndTxn (feature
`oncelog.group.transactions`)."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from oncelog_client.admin.client import Admin
from oncelog_client.errors import CommitOutcomeUnknown as UnknownOutcomeError
from oncelog_client.errors import (
    FencedInGroupError,
    GroupCommitError,
    IllegalStateError,
    KafkaError,
)
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.producer import Producer
from oncelog_client.spark.background import background
from oncelog_client.spark.settings.client_settings import ClientSetup
from oncelog_client.spark.sink.protocol.messages import CommitKind, Plan
from oncelog_client.spark.sink.protocol.record_log import STATE_PARTITION
from oncelog_client.spark.sink.protocol.refusals import SinkError, timed_out, written_by_another
from oncelog_client.spark.sink.protocol.state import SINK_PARTITION, SinkState, decode, encode
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
from oncelog_client.values import TransactionGroup, TransactionMember

# A decision without a response is sent again until this time in ms has passed. The last attempt may
# end later, by its own timeout.
DECISION_TIMEOUT_MS: Final = 120_000
_ASK_AGAIN_S: Final = 0.2


class GroupCommit:
    """Performs the commands of a sink that commits by group. `setup` has the arguments of an admin
    client. Commands other than Open and Decide take one round trip if nothing has to be retried."""

    def __init__(self, setup: ClientSetup, sink_id: str, transaction_timeout_ms: int) -> None:
        self._setup = setup
        self._sink_id = sink_id
        self._timeout_ms = transaction_timeout_ms

    async def begin(self, producer: Producer, plan: Plan) -> None:
        await producer.init_transactions((), plan.sink_id, plan.generation)
        await producer.begin_transaction()

    def explain(self, error: KafkaError, topic: str = "") -> None:
        from oncelog_client.spark.settings.rights import explain_refusal

        from .protocol.sink_rights import sink_rights

        explain_refusal(error, sink_rights(self._sink_id, [topic], CommitKind.GROUP))

    async def perform(self, command: Command) -> Result:
        admin = await background().client(
            ("admin", self._setup),
            lambda: Admin(self._setup.bootstrap_servers, **self._setup.keywords),
        )
        match command:
            case Look():
                return await self._look(admin, command)
            case FenceParent():
                return await self._fence(admin, command)
            case Open():
                return await self._open(admin, command)
            case AbortOpen():
                return await self._abort_open(admin, command)
            case Stage():
                return await self._stage(admin, command)
            case Decide():
                return await self._decide(admin, command.parent, command.members)
        raise LookupError(f"{command} is of another kind of commit")

    async def _look(self, admin: Admin, look: Look) -> Stored:
        offsets, open_now = await asyncio.gather(
            admin.list_group_offsets(
                self._sink_id, [SINK_PARTITION, STATE_PARTITION], require_stable=look.stable
            ),
            admin.list_transactions(
                states=["Ongoing"],
                transactional_id_pattern=f"{re.escape(self._sink_id)}/.*",
                group_id=self._sink_id,
            ),
        )
        found = offsets.get(SINK_PARTITION)
        if found is None and STATE_PARTITION in offsets:
            raise SinkError(written_by_another(self._sink_id, CommitKind.RECORD))
        state: SinkState | None = None if found is None else decode(found, self._sink_id)
        return Stored(state, tuple(transaction.transactional_id for transaction in open_now))

    async def _fence(self, admin: Admin, fence: FenceParent) -> Result:
        group = TransactionGroup(self._sink_id, fence.generation)
        try:
            return Fenced(
                await admin.init_producer(
                    self._sink_id, group, transaction_timeout_ms=self._timeout_ms
                )
            )
        except FencedInGroupError:
            return Outdated()

    async def _open(self, admin: Admin, open_: Open) -> Result:
        result = await self._put(admin, open_.parent, open_.state)
        if isinstance(result, Done):
            return await self._decide(admin, open_.parent, ())
        return result

    async def _stage(self, admin: Admin, stage: Stage) -> Result:
        return await self._put(admin, stage.parent, stage.state)

    async def _put(
        self, admin: Admin, parent: TransactionMember, state: SinkState
    ) -> Done | Outdated:
        try:
            await admin.stage_group_offsets(self._sink_id, parent, {SINK_PARTITION: encode(state)})
        except (FencedInGroupError, GroupCommitError):
            # The producer is fenced, or its transactional id has another producer id.
            return Outdated()
        return Done()

    async def _abort_open(self, admin: Admin, abort: AbortOpen) -> Result:
        """Abort transactions by InitProducerId. The call is idempotent and safe: a decision that
        was made before is in the log and stays, and a later decision is refused because the
        member's epoch has changed."""
        group = TransactionGroup(self._sink_id, abort.generation)
        try:
            await asyncio.gather(
                *(
                    admin.init_producer(
                        transactional_id, group, transaction_timeout_ms=self._timeout_ms
                    )
                    for transactional_id in abort.transactional_ids
                )
            )
        except FencedInGroupError:
            return Outdated()
        return Done()

    async def _decide(
        self, admin: Admin, parent: TransactionMember, members: tuple[TransactionMember, ...]
    ) -> Result:
        deadline_ms = monotonic_ms() + DECISION_TIMEOUT_MS
        while True:
            try:
                await admin.commit_group(self._sink_id, parent, members)
                return Done()
            except GroupCommitError as error:
                if error.member == parent.transactional_id:
                    return Outdated()
                return MemberGone(error.member, await self._why(admin, error))
            except FencedInGroupError:
                return Outdated()
            except IllegalStateError as error:
                # The transaction of the driver's producer has timed out, or a new generation has
                # aborted it.
                return MemberGone(parent.transactional_id, error.message)
            except UnknownOutcomeError as error:
                if error.fatal or monotonic_ms() > deadline_ms:
                    return OutcomeUnknown()
            await asyncio.sleep(_ASK_AGAIN_S)

    async def _why(self, admin: Admin, error: GroupCommitError) -> str:
        """Return the member's state at the coordinator, for the message of the error."""
        try:
            found = (await admin.describe_transactions([error.member]))[error.member]
        except KafkaError:
            return error.code.name
        if not found.fences:
            return f"{error.code.name}, state {found.state}"
        cause = found.fences[-1].cause
        if cause != "timed out":
            return f"{error.code.name}, {cause}"
        return timed_out(self._timeout_ms)
