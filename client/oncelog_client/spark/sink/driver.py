"""The driver's part at work: machines and a back-end, with the fail points around each step.

Planning and commit run in different processes. What a process keeps is its generation of a sink,
and connections; either may be gone the next time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from oncelog_client.admin.client import Admin
from oncelog_client.spark.background import background
from oncelog_client.spark.client_settings import ClientSetup
from oncelog_client.spark.fail_points import fail_at
from oncelog_protocol.features import GROUP_TRANSACTIONS, GROUP_TRANSACTIONS_LEVEL

from . import aborting, committing, planning
from .back_end import BackEnd
from .group_commit import GroupCommit
from .messages import CommitKind, Intent, Plan, TaskMessage
from .refusals import SinkError
from .sink_options import SinkOptions
from .steps import Answer, Generation, Outcome, Planned, Raised, Returned

_log: Final = logging.getLogger(__name__)

# Beyond the time-outs of the calls themselves, which say more.
CALL_TIMEOUT_S: Final = 600

_generations: Final[dict[tuple[int, str, str], Generation]] = {}

S = TypeVar("S")


def commit_kind(options: SinkOptions) -> CommitKind:
    """By the option sinkProtocol, or by what the broker announces. Raises SinkError, KafkaError."""
    return background().run(_commit_kind(options), CALL_TIMEOUT_S)


async def _commit_kind(options: SinkOptions) -> CommitKind:
    setup = options.admin
    if options.forced is CommitKind.RECORD:
        return CommitKind.RECORD
    admin = await background().client(
        ("admin", setup), lambda: Admin(setup.bootstrap_servers, **setup.keywords)
    )
    if admin.features.get(GROUP_TRANSACTIONS, 0) >= GROUP_TRANSACTIONS_LEVEL:
        return CommitKind.GROUP
    if options.forced is CommitKind.GROUP:
        raise SinkError(
            f"option sinkProtocol='group': {setup.bootstrap_servers} does not announce"
            f" {GROUP_TRANSACTIONS}; it needs oncelog with group.transactions.enable"
        )
    return CommitKind.RECORD


def back_end(
    kind: CommitKind, setup: ClientSetup, sink_id: str, transaction_timeout_ms: int
) -> BackEnd:
    """`setup`: of an admin client."""
    if kind is CommitKind.GROUP:
        return GroupCommit(setup, sink_id, transaction_timeout_ms)
    from .record_commit import RecordCommit

    return RecordCommit(setup, sink_id, transaction_timeout_ms)


def plan(options: SinkOptions, intent: Intent) -> Plan:
    """Step 0. Raises SinkError, KafkaError, TimeoutError."""
    key = (os.getpid(), options.admin.bootstrap_servers, intent.sink_id)
    begun = _generations.pop(key, None)
    if begun is None:
        _log.info("sink %s commits by %s", intent.sink_id, intent.kind)
        for sentence in options.remarks:
            _log.warning("sink %s: %s", intent.sink_id, sentence)
    outcome = _run(
        back_end(intent.kind, options.admin, intent.sink_id, options.transaction_timeout_ms),
        planning.begin(intent, begun),
        planning.step,
    )
    assert isinstance(outcome, Planned)
    if (going_on := outcome.generation or begun) is not None:
        _generations[key] = going_on
    return outcome.plan


def commit(
    options: SinkOptions,
    messages: Sequence[TaskMessage | None],
    batch_id: int | None,
    source_end: str | None,
) -> bool:
    """Step 2; whether it was this call that committed. Raises SinkError, KafkaError."""
    outcome = _run(
        _back_end_of(options, messages),
        committing.begin(messages, batch_id, source_end),
        committing.step,
    )
    assert isinstance(outcome, Returned)
    return outcome.committed


def abort(
    options: SinkOptions, messages: Sequence[TaskMessage | None], batch_id: int | None
) -> None:
    """Step 3. Raises SinkError, KafkaError."""
    _run(_back_end_of(options, messages), aborting.begin(messages, batch_id), aborting.step)


def _back_end_of(options: SinkOptions, messages: Sequence[TaskMessage | None]) -> BackEnd | None:
    plans = [one.plan for one in messages if one is not None]
    if not plans:
        return None
    kind, sink_id = plans[0].kind, plans[0].sink_id
    return back_end(kind, options.admin, sink_id, options.transaction_timeout_ms)


def _run(
    performer: BackEnd | None,
    begun: tuple[S, Any],
    step: Callable[[S, Answer], tuple[S, Any]],
) -> Outcome:
    """To the machine's outcome. Raises SinkError for Raised."""
    state, command = begun
    while not isinstance(command, Planned | Returned | Raised):
        assert performer is not None
        fail_at(f"{command.step}.before")
        answer = background().run(performer.perform(command), CALL_TIMEOUT_S)
        fail_at(f"{command.step}.after")
        state, command = step(state, answer)
    if isinstance(command, Raised):
        raise SinkError(command.refusal.message, command.refusal.reason)
    return command
