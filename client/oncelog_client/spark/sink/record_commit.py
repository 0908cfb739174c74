"""The commit by record, for any broker that speaks Kafka's protocol. A record in a compacted topic
decides a batch. Then each transaction of the batch is committed, and another record marks the batch
as done.

Between the two records readers may see a part of the batch. If the driver dies between them, the
next planning finishes the batch. The batch's transactions must still be open then. With two-phase
commit (KIP-939) they are, because they have no timeout. Without it, the broker may have aborted
them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from oncelog_client.admin.client import Admin
from oncelog_client.admin.config_descriptions import ConfigResource, ResourceType
from oncelog_client.admin.topic_descriptions import NewTopic
from oncelog_client.admin.transaction_descriptions import TransactionDescription
from oncelog_client.errors import (
    AuthorizationError,
    CommitOutcomeUnknown,
    KafkaError,
    ProducerFencedError,
    RetriableError,
    TimedOutError,
    TransactionGoneError,
    UnsupportedVersionError,
)
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.producer import Producer
from oncelog_client.spark.background import background
from oncelog_client.spark.fail_points import fail_at
from oncelog_client.spark.settings.client_settings import ClientSetup
from oncelog_client.spark.sink.protocol import record_steps
from oncelog_client.spark.sink.protocol.messages import CommitKind, Plan
from oncelog_client.spark.sink.protocol.record_log import (
    STATE_PARTITION,
    STATE_TOPIC_CONFIGS,
    RecordLog,
    read_on,
)
from oncelog_client.spark.sink.protocol.record_state import Entry
from oncelog_client.spark.sink.protocol.record_state import encode as encode_entry
from oncelog_client.spark.sink.protocol.record_steps import (
    Append,
    Check,
    CheckParent,
    DecidedMemberLost,
    EndMembers,
)
from oncelog_client.spark.sink.protocol.refusals import (
    Reason,
    SinkError,
    decided_member_lost,
    written_by_another,
)
from oncelog_client.spark.sink.protocol.state import SINK_PARTITION, encode
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
    RollForward,
    Step,
    Stored,
)
from oncelog_client.values import TransactionMember
from oncelog_protocol.errors import ErrorCode

# The timeout of the driver's own transactions. Each holds one record and perhaps a group offset.
PARENT_TIMEOUT_MS: Final = 60_000
# EndTxn without a response is sent again until this time in ms has passed, if no state is kept. The
# last attempt may end later, by its own timeout.
END_TIMEOUT_MS: Final = 120_000
_ASK_AGAIN_S: Final = 0.01
# The wait before EndTxn is sent again. An attempt without a response has already waited for a
# timeout.
_RETRY_S: Final = 0.2

_log = logging.getLogger(__name__)

# Kept in each process: the part of each sink's log that was read, whether a broker accepts
# two-phase commit, the brokers with a checked state topic, and the sinks that have logged a
# warning.
_logs: dict[tuple[ClientSetup, str], RecordLog] = {}
_two_phase: dict[ClientSetup, bool] = {}
_checked: set[tuple[ClientSetup, str]] = set()
_warned: set[tuple[ClientSetup, str]] = set()


class RecordCommit:
    """The back-end of a commit by record. `setup` has the arguments of an admin client.
    `transaction_timeout_ms`: the timeout of the tasks' transactions, if they have a timeout.
    `is_kept` (of the plan): the sink has a state that counts its batches. Without a state, the
    state topic is not used."""

    def __init__(
        self,
        setup: ClientSetup,
        sink_id: str,
        transaction_timeout_ms: int,
        *,
        is_kept: bool = True,
    ) -> None:
        self._setup = setup
        self._sink_id = sink_id
        self._timeout_ms = transaction_timeout_ms
        self._is_kept = is_kept
        # Transactional id -> the producer with an open transaction when the commit began, or None.
        self._open: dict[str, TransactionMember | None] = {}

    # -- tasks

    async def begin(self, producer: Producer, plan: Plan) -> None:
        admin = await self._admin()
        assert producer.config.transactional_id is not None
        member = await self._init_member(admin, producer.config.transactional_id)
        await producer.adopt_transactions(member)
        await producer.begin_transaction()

    async def _init_member(self, admin: Admin, transactional_id: str) -> TransactionMember:
        """Initialize a task's transaction. The transaction has no timeout if the broker allows this
        and a state is stored. A write without a stored state needs the timeout, because no later
        planning aborts the transactions that it leaves open."""
        if self._is_kept and _two_phase.get(self._setup, True):
            try:
                member = await admin.init_producer(transactional_id, two_phase_commit=True)
            except (AuthorizationError, UnsupportedVersionError):
                _two_phase[self._setup] = False
            else:
                _two_phase[self._setup] = True
                return member
        return await admin.init_producer(transactional_id, transaction_timeout_ms=self._timeout_ms)

    # -- the driver

    def explain(self, error: KafkaError, topic: str = "") -> None:
        from oncelog_client.spark.settings.rights import explain_refusal

        from .protocol.sink_rights import sink_rights

        explain_refusal(error, sink_rights(self._sink_id, [topic], CommitKind.RECORD))

    async def perform(self, command: Command) -> Result:
        admin = await self._admin()
        match command:
            case Look():
                return await self._look(admin, command)
            case FenceParent():
                return await self._fence(admin, command)
            case Open():
                return await self._append(admin, command.parent, Entry(command.state))
            case AbortOpen():
                return await self._abort_open(admin, command)
            case Decide() | RollForward():
                return await self._decide(admin, command)
        raise LookupError(f"{command} is of another kind of commit")

    async def _admin(self) -> Admin:
        return await background().client(
            ("admin", self._setup),
            lambda: Admin(self._setup.bootstrap_servers, **self._setup.keywords),
        )

    # -- looking

    async def _look(self, admin: Admin, look: Look) -> Stored:
        log = RecordLog()
        if self._is_kept:
            await self._check_topic(admin)
            log, open_ids = await asyncio.gather(
                self._read(admin, stable=look.stable), self._open_ids(admin)
            )
        else:
            open_ids = await self._open_ids(admin)
        if look.step is Step.COMMIT_READ:
            self._open = await _holders(admin, open_ids)
        if log.entry is None:
            if self._is_kept:
                await self._check_kind(admin)
            return Stored(None, open_ids)
        return Stored(log.entry.state, open_ids, log.entry.unfinished)

    async def _read(self, admin: Admin, *, stable: bool) -> RecordLog:
        """Read the rest of the log. `stable`: repeat the read until the part that was read has no
        open transaction of the sink, because Kafka responds to EndTxn before the marker is in the
        log. Raises TimedOutError."""
        key = (self._setup, self._sink_id)
        deadline_ms = monotonic_ms() + admin.config.default_api_timeout_ms
        while True:
            log = _logs.get(key, RecordLog())
            batches = await admin.state_log(STATE_PARTITION).read(log.next_offset)
            log = _logs[key] = read_on(log, self._sink_id, batches)
            if not (stable and log.pending):
                return log
            if monotonic_ms() > deadline_ms:
                raise TimedOutError(f"a transaction of sink {self._sink_id} is still open")
            await asyncio.sleep(_ASK_AGAIN_S)

    async def _open_ids(self, admin: Admin) -> tuple[str, ...]:
        prefix = f"{self._sink_id}/"
        try:
            found = await admin.list_transactions(
                states=["Ongoing"], transactional_id_pattern=f"{re.escape(prefix)}.*"
            )
        except UnsupportedVersionError:
            # A broker without KIP-1152 cannot list transactions by a pattern.
            found = await admin.list_transactions(states=["Ongoing"])
        ids = (transaction.transactional_id for transaction in found)
        return tuple(name for name in ids if name.startswith(prefix))

    async def _check_topic(self, admin: Admin) -> None:
        """Create the state topic if it is missing. Check that the topic is compacted, once in a
        process. Raises SinkError."""
        key = (self._setup, STATE_PARTITION.topic)
        if key in _checked:
            return
        topic = STATE_PARTITION.topic
        try:
            await admin.describe_topics([topic])
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            await _create_topic(admin)
        policy = await _cleanup_policy(admin)
        if policy != "compact":
            raise SinkError(
                f"topic {topic} has cleanup.policy={policy}, which would delete the state of sinks."
                " Set cleanup.policy=compact"
            )
        _checked.add(key)

    async def _check_kind(self, admin: Admin) -> None:
        """Raise SinkError if the sink commits by group. Such a sink counts its batches in the
        offset of its group."""
        offsets = await admin.list_group_offsets(self._sink_id, [SINK_PARTITION])
        if SINK_PARTITION in offsets:
            raise SinkError(written_by_another(self._sink_id, CommitKind.GROUP))

    # -- a generation

    async def _fence(self, admin: Admin, fence: FenceParent) -> Result:
        log = await self._read(admin, stable=False)
        if log.entry is not None and log.entry.state.generation > fence.generation:
            return Outdated()
        if fence.step is Step.PLAN_FENCE:
            await self._warn_of_lost_transactions(admin)
        timeout_ms = min(self._timeout_ms, PARENT_TIMEOUT_MS)
        return Fenced(await admin.init_producer(self._sink_id, transaction_timeout_ms=timeout_ms))

    async def _warn_of_lost_transactions(self, admin: Admin) -> None:
        key = (self._setup, self._sink_id)
        if key in _warned:
            return
        if self._setup not in _two_phase:
            await self._init_member(admin, f"{self._sink_id}/0/two-phase")
        _warned.add(key)
        if not _two_phase[self._setup]:
            _log.warning(
                "sink %s: the broker has no two-phase commit (KIP-939). Rows of a batch are lost if"
                " the broker or the driver stops just after the batch was decided, and does not"
                " return within kafka.transaction.timeout.ms=%d of the first row of a task. The"
                " query then fails with DECIDED_MEMBER_LOST",
                self._sink_id,
                self._timeout_ms,
            )

    async def _abort_open(self, admin: Admin, abort: AbortOpen) -> Result:
        """Abort transactions by InitProducerId. The call is idempotent. It never aborts a decided
        transaction, because the driver sends AbortOpen only after every decided batch is done."""
        await asyncio.gather(
            *(
                self._init_member(admin, transactional_id)
                for transactional_id in abort.transactional_ids
            )
        )
        return Done()

    # -- a decision

    async def _decide(self, admin: Admin, asked: Decide | RollForward) -> Result:
        entry = _logs.get((self._setup, self._sink_id), RecordLog()).entry
        state, command = record_steps.begin(asked, None if entry is None else entry.state)
        result: Done | Outdated | MemberGone | OutcomeUnknown
        while True:
            match command:
                case Check(members):
                    result = await self._check(admin, members)
                case Append(parent=parent, entry=written):
                    fail_at(f"{command.step}.before")
                    result = await self._append(admin, parent, written)
                    fail_at(f"{command.step}.after")
                case EndMembers(members=members):
                    fail_at(f"{command.step}.before")
                    result = await self._end(admin, members)
                    fail_at(f"{command.step}.after")
                case CheckParent(parent):
                    found = await _described(admin, parent.transactional_id)
                    is_driver = found is not None and _member(found) == parent
                    result = Done() if is_driver else Outdated()
                case DecidedMemberLost(member, detail):
                    if isinstance(asked, RollForward):
                        return MemberGone(member, detail)
                    batch = f"batch {asked.batch_id}"
                    lost = decided_member_lost(self._sink_id, batch, member, detail)
                    raise SinkError(lost.message, Reason.DECIDED_MEMBER_LOST)
                case Outdated() if state.is_decided and isinstance(asked, Decide):
                    raise SinkError(
                        f"another driver has taken over sink {self._sink_id} while batch"
                        f" {asked.batch_id} was being committed. The batch is decided, and the"
                        " other driver finishes it. Is the query running twice?",
                        Reason.FENCED,
                    )
                case _:
                    return command
            state, command = record_steps.step(state, result)

    async def _check(
        self, admin: Admin, members: tuple[TransactionMember, ...]
    ) -> Done | MemberGone:
        """Check that the transaction of each member is still open. Describe the transactions that
        the command Look has not found."""
        unknown = [member[0] for member in members if member.transactional_id not in self._open]
        holders = {**self._open, **await _holders(admin, unknown)}
        for member in members:
            holder = holders[member.transactional_id]
            if holder != member:
                found = "is not open" if holder is None else f"has epoch {holder.producer_epoch}"
                return MemberGone(
                    member.transactional_id,
                    f"it {found}; kafka.transaction.timeout.ms={self._timeout_ms} must be longer"
                    " than a batch takes, from the first row of a task to the commit",
                )
        return Done()

    async def _end(
        self, admin: Admin, members: tuple[TransactionMember, ...]
    ) -> Done | MemberGone | OutcomeUnknown:
        """Send EndTxn(commit) for all members. Without a kept state no restart can finish the
        commit, so members without a response are retried for `END_TIMEOUT_MS`, and an error of
        one member is a result, because the other members may be committed. Raises KafkaError
        otherwise."""
        deadline_ms = monotonic_ms() + (0 if self._is_kept else END_TIMEOUT_MS)
        refused: dict[TransactionMember, BaseException] = {}
        pending = members
        while True:
            ended = await asyncio.gather(
                *(admin.end_transaction(member) for member in pending), return_exceptions=True
            )
            outcomes = dict(zip(pending, ended, strict=True))
            pending = tuple(
                member
                for member, outcome in outcomes.items()
                if isinstance(outcome, (CommitOutcomeUnknown, RetriableError))
            )
            refused |= {
                member: outcome
                for member, outcome in outcomes.items()
                if outcome is not None and member not in pending
            }
            if not pending or monotonic_ms() >= deadline_ms:
                break
            await asyncio.sleep(_RETRY_S)
        for member, error in refused.items():
            is_partial = not self._is_kept and len(members) > 1 and isinstance(error, KafkaError)
            if isinstance(error, TransactionGoneError) or is_partial:
                return MemberGone(member.transactional_id, str(error))
            raise error
        return OutcomeUnknown() if pending else Done()

    async def _append(
        self, admin: Admin, parent: TransactionMember, entry: Entry
    ) -> Done | Outdated | OutcomeUnknown:
        """Append a record in a transaction of the parent. Unless the record decides a batch, the
        group's offset is committed with the record, for tools that show the offset. A generation
        begins with a record that commits the offset. So a principal without the right to the group
        is refused before a batch is decided, and not between the decision and its end."""
        key = (self._setup, self._sink_id)
        log = _logs.get(key, RecordLog())
        sequence = log.first_sequence(parent)
        offsets = [(STATE_PARTITION, encode(entry.state))] if entry.unfinished is None else []
        try:
            await admin.state_log(STATE_PARTITION).commit(
                parent,
                sequence,
                [(self._sink_id.encode(), encode_entry(entry))],
                group_id=self._sink_id,
                offsets=offsets,
            )
        except ProducerFencedError:
            return Outdated()
        except (CommitOutcomeUnknown, RetriableError):
            # A request in flight may still arrive.
            return OutcomeUnknown()
        newest = (parent.producer_id, parent.producer_epoch, sequence)
        _logs[key] = replace(log, entry=entry, newest=newest)
        return Done()


async def _create_topic(admin: Admin) -> None:
    topic = NewTopic(STATE_PARTITION.topic, 1, configs=STATE_TOPIC_CONFIGS)
    try:
        await admin.create_topics([topic])
    except AuthorizationError as error:
        raise SinkError(
            f"topic {topic.name} does not exist, and the principal may not create it ({error}): the"
            f" principal needs CREATE on topic {topic.name}, or create the topic with one partition"
            " and cleanup.policy=compact"
        ) from error
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def _cleanup_policy(admin: Admin) -> str | None:
    """Return cleanup.policy of the state topic, or None if the broker does not report its value. A
    Kafka broker may learn of a topic some milliseconds after the controller has created the topic.
    So if the topic is unknown, the request is retried for default_api_timeout_ms. Raises
    KafkaError."""
    place = ConfigResource(ResourceType.TOPIC, STATE_PARTITION.topic)
    deadline_ms = monotonic_ms() + admin.config.default_api_timeout_ms
    while True:
        try:
            return (await admin.describe_configs([place]))[place]["cleanup.policy"].value
        except KafkaError as error:
            is_unknown = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not is_unknown or monotonic_ms() > deadline_ms:
                raise
        await asyncio.sleep(_ASK_AGAIN_S)


async def _holders(admin: Admin, ids: Iterable[str]) -> dict[str, TransactionMember | None]:
    """Return for each id the producer with an open transaction, or None if no transaction is
    open."""
    names = list(ids)
    found = await asyncio.gather(*(_described(admin, name) for name in names))
    return {
        name: None
        if description is None or description.state != "Ongoing"
        else _member(description)
        for name, description in zip(names, found, strict=True)
    }


async def _described(admin: Admin, transactional_id: str) -> TransactionDescription | None:
    try:
        return (await admin.describe_transactions([transactional_id]))[transactional_id]
    except KafkaError as error:
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        raise


def _member(found: TransactionDescription) -> TransactionMember:
    return TransactionMember(found.transactional_id, found.producer_id, found.producer_epoch)
