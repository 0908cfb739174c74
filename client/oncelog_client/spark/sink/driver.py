"""Runs the state machines of the driver on a back-end, with fail points around each step.

Planning and commit run in different processes. Between two calls of Spark, a process keeps its
connections, and the generation of each sink for which it has planned a batch. The next call may
also reach another process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from oncelog_client.admin.client import Admin
from oncelog_client.admin.config_descriptions import ConfigResource, ResourceType
from oncelog_client.errors import KafkaError
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.spark.background import background
from oncelog_client.spark.fail_points import fail_at
from oncelog_client.spark.settings.client_settings import ClientSetup
from oncelog_client.spark.sink.protocol import aborting, committing, planning
from oncelog_client.spark.sink.protocol.messages import CommitKind, Intent, Plan, TaskMessage
from oncelog_client.spark.sink.protocol.refusals import SinkError, timeout_too_long
from oncelog_client.spark.sink.protocol.sink_options import TIMEOUT_OPTION, SinkOptions
from oncelog_client.spark.sink.protocol.state import MAX_METADATA_BYTES, kept
from oncelog_client.spark.sink.protocol.steps import (
    Generation,
    Outcome,
    Planned,
    Raised,
    Result,
    Returned,
)
from oncelog_protocol.features import GROUP_TRANSACTIONS, GROUP_TRANSACTIONS_LEVEL

from .back_end import BackEnd
from .back_ends import back_end

_log: Final = logging.getLogger(__name__)

# Longer than the timeouts of the single requests of a call. So a request fails first, with an error
# that has the cause.
CALL_TIMEOUT_S: Final = 600
MAX_TIMEOUT_SETTING: Final = "transaction.max.timeout.ms"

# A sink in this process. The setup is part of the key, because two users of a sink in one driver,
# with different credentials, must not share a generation.
_SinkKey = tuple[int, ClientSetup, str]
_generations: Final[dict[_SinkKey, Generation]] = {}
_logged_kinds_of_long_ends: Final[set[tuple[int, str]]] = set()
# The sinks for which this process has logged the warning of `_log_kind`.
_logged_kinds: Final[set[_SinkKey]] = set()

S = TypeVar("S")


def commit_kind(options: SinkOptions) -> CommitKind:
    """Return the kind of commit: the value of the option sinkProtocol, or the kind that the broker
    announces. Raises SinkError or KafkaError."""
    return background().run(_commit_kind(options), CALL_TIMEOUT_S)


def check_timeout(options: SinkOptions) -> None:
    """Raise SinkError if the transaction timeout exceeds the broker's limit."""
    most_ms = background().run(_longest_timeout_ms(options.admin), CALL_TIMEOUT_S)
    if most_ms is not None and options.transaction_timeout_ms > most_ms:
        raise timeout_too_long(options.transaction_timeout_ms, most_ms)


async def _longest_timeout_ms(setup: ClientSetup) -> int | None:
    """Return the broker's limit, or None if the limit cannot be read. In that case the broker
    checks the timeout at the first transaction."""
    admin = await _admin(setup)
    with suppress(KafkaError):
        cluster = await admin.describe_cluster()
        broker = ConfigResource(ResourceType.BROKER, str(cluster.nodes[0].node_id))
        described = await admin.describe_configs([broker])
        value = described[broker][MAX_TIMEOUT_SETTING].value
        return None if value is None else int(value)
    return None


async def _admin(setup: ClientSetup) -> Admin:
    return await background().client(
        ("admin", setup), lambda: Admin(setup.bootstrap_servers, **setup.keywords)
    )


async def _commit_kind(options: SinkOptions) -> CommitKind:
    setup = options.admin
    if options.forced is CommitKind.RECORD:
        return CommitKind.RECORD
    admin = await _admin(setup)
    if admin.features.get(GROUP_TRANSACTIONS, 0) >= GROUP_TRANSACTIONS_LEVEL:
        return CommitKind.GROUP
    if options.forced is CommitKind.GROUP:
        raise SinkError(
            f"option sinkProtocol='group': {setup.bootstrap_servers} does not announce"
            f" {GROUP_TRANSACTIONS}; it needs oncelog with group.transactions.enable"
        )
    return CommitKind.RECORD


def plan(options: SinkOptions, intent: Intent) -> Plan:
    """Plan a batch (step 0). Raises SinkError, KafkaError or TimeoutError."""
    key = (os.getpid(), options.admin, intent.sink_id)
    begun = _generations.pop(key, None)
    if begun is None:
        _log_kind(options, intent, key)
        for sentence in options.remarks:
            _log.warning("sink %s: %s", intent.sink_id, sentence)
        check_timeout(options)
    outcome = _run(
        back_end(options, intent.kind, intent.sink_id),
        planning.begin(intent, begun),
        planning.step,
        lambda outcome: _planned(intent, outcome),
    )
    assert isinstance(outcome, Planned)
    if _is_skipped(outcome.plan):
        _log.warning(
            "sink %s: txnVersion %s of txnAppId %s is skipped, and none of its rows are written:"
            " version %d was written last",
            intent.sink_id,
            intent.batch_id,
            intent.query_id,
            outcome.plan.done - 1,
        )
    if (going_on := outcome.generation or begun) is not None:
        _generations[key] = going_on
    return outcome.plan


def _log_kind(options: SinkOptions, intent: Intent, key: _SinkKey) -> None:
    """Log how a sink commits. If the options choose no kind, and the broker leaves only commits by
    record, the first event is a warning. Spark's Python workers show only warnings."""
    if options.forced is None and intent.kind is CommitKind.RECORD and key not in _logged_kinds:
        _logged_kinds.add(key)
        _log.warning(
            "sink %s commits by record: the broker does not announce %s",
            intent.sink_id,
            GROUP_TRANSACTIONS,
        )
    else:
        _log.info("sink %s commits by %s", intent.sink_id, intent.kind)


def _is_skipped(plan: Plan) -> bool:
    return plan.batch_id is not None and plan.batch_id < plan.done


def _planned(intent: Intent, outcome: Outcome) -> str:
    """Return the log message of a planned batch."""
    assert isinstance(outcome, Planned)
    what = f"txnVersion {intent.batch_id} skipped" if _is_skipped(outcome.plan) else "planned"
    return f"sink {intent.sink_id}: {what}"


def commit(
    options: SinkOptions,
    messages: Sequence[TaskMessage | None],
    batch_id: int | None,
    source_end: str | None,
) -> bool:
    """Commit a batch (step 2). Return True if this call has committed. Raises SinkError or
    KafkaError."""
    _warn_of_slow_tasks(options, messages)
    begun = committing.begin(messages, batch_id, source_end)
    _warn_of_long_end(begun[0])
    outcome = _run(
        _back_end_of(options, messages),
        begun,
        committing.step,
        lambda outcome: _committed(messages, batch_id, outcome),
    )
    assert isinstance(outcome, Returned)
    were_skipped = any(message.skipped for message in messages if message is not None)
    if options.txn_version is not None and not outcome.committed and not were_skipped:
        _log.warning(
            "txnVersion %d of txnAppId %s is skipped, and its rows are aborted: another write of"
            " this version was committed first",
            options.txn_version,
            options.txn_app_id,
        )
    return outcome.committed


def _committed(
    messages: Sequence[TaskMessage | None], batch_id: int | None, outcome: Outcome
) -> str:
    """Return the log message of a committed batch."""
    assert isinstance(outcome, Returned)
    if not outcome.committed:
        return f"batch {batch_id}: skipped, it was done before or is empty"
    times = "+".join(str(message.duration_ms) for message in messages if message is not None)
    return f"batch {batch_id}: committed, tasks took {times} ms"


def abort(
    options: SinkOptions, messages: Sequence[TaskMessage | None], batch_id: int | None
) -> None:
    """Abort a batch (step 3). Raises SinkError or KafkaError."""
    begun = aborting.begin(messages, batch_id)
    performer = _back_end_of(options, messages)
    _run(performer, begun, aborting.step, lambda _: f"batch {batch_id}: aborted")


def _warn_of_long_end(begun: committing.Committing) -> None:
    """Warn, once for each process and sink, that a source end is too long to keep. A sink that
    commits by record keeps a source end of any length in its state topic."""
    plan, decide = begun.plan, begun.decide
    if plan is None or plan.kind is CommitKind.RECORD or decide is None or decide.state is None:
        return
    key = (os.getpid(), plan.sink_id)
    if key in _logged_kinds_of_long_ends or not kept(decide.state).is_end_too_long:
        return
    _logged_kinds_of_long_ends.add(key)
    _log.warning(
        "sink %s: the source end of the batch is not stored: the offsets of all its partitions"
        " need more than the %d bytes that a broker stores with an offset. If the checkpoint is"
        " lost, startingOffsets=sink:%s cannot start a query at this end",
        plan.sink_id,
        MAX_METADATA_BYTES,
        plan.sink_id,
    )


def _warn_of_slow_tasks(options: SinkOptions, messages: Sequence[TaskMessage | None]) -> None:
    longest_ms = max(
        (message.duration_ms for message in messages if message is not None), default=0
    )
    if longest_ms > options.transaction_timeout_ms / 2:
        _log.warning(
            "a task took %d ms; if a task takes longer than %s=%d, the broker aborts its"
            " transaction, and the batch fails",
            longest_ms,
            TIMEOUT_OPTION,
            options.transaction_timeout_ms,
        )


def _back_end_of(options: SinkOptions, messages: Sequence[TaskMessage | None]) -> BackEnd | None:
    plan = next((message.plan for message in messages if message is not None), None)
    if plan is None:
        return None
    return back_end(options, plan.kind, plan.sink_id, is_kept=plan.is_kept)


def _run(
    performer: BackEnd | None,
    begun: tuple[S, Any],
    step: Callable[[S, Result], tuple[S, Any]],
    said: Callable[[Outcome], str],
) -> Outcome:
    """Run a state machine to its outcome and log the text that `said` returns for the outcome.
    Raises SinkError if the outcome is `Raised`."""
    started_ms, steps = monotonic_ms(), 0
    state, command = begun
    while not isinstance(command, Planned | Returned | Raised):
        assert performer is not None
        fail_at(f"{command.step}.before")
        try:
            result = background().run(performer.perform(command), CALL_TIMEOUT_S)
        except (KafkaError, TimeoutError) as error:
            if isinstance(error, KafkaError):
                performer.explain(error)
            raise SinkError(f"sink step {command.step}: {error}") from error
        fail_at(f"{command.step}.after")
        state, command = step(state, result)
        steps += 1
    if isinstance(command, Raised):
        raise SinkError(command.refusal.message, command.refusal.reason)
    took_ms = monotonic_ms() - started_ms
    _log.debug("%s, %d round trips, %.1f ms", said(command), steps, took_ms)
    return command
