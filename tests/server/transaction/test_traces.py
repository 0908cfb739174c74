"""Traces of EndTxn and fencing, in `traces/*.txt` (KIP-98, KIP-360, KIP-588, KIP-890).

A producer is `id/epoch`. `+1000` is a time, in ms since the clock of the trace began.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.transaction_log import (
    TransactionState,
    decode_transaction_log_key,
    decode_transaction_log_value,
)
from oncelog_server.coordinator.shard import CoordinatorRecord, EffectRow
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.effects import (
    ClientKnown,
    CompleteLater,
    Fenced,
    GenerationPending,
    Pending,
    ProducerRefused,
    RefusalCounted,
    ReleaseResponse,
    StartTimer,
    WriteMarkers,
)
from oncelog_server.transaction.fences import Fence
from oncelog_server.transaction.results import TransactionResult
from oncelog_server.transaction.shard import TransactionShard
from tests.server.traces import (
    Command,
    Commands,
    EffectTexts,
    Trace,
    TracedLog,
    partition_of,
    rewritten,
)
from tests.server.transaction.driver import ID, WALL_MS, Driver

TRACES = sorted(Path(__file__).with_name("traces").glob("*.txt"))
FIRST_BUMPING_VERSION = 5  # of EndTxn


def producer_of(text: str) -> tuple[int, int]:
    producer_id, _, epoch = text.partition("/")
    return int(producer_id), int(epoch)


def time(ms: int) -> str:
    return "none" if ms < 0 else f"+{ms - WALL_MS}"


def record_text(record: CoordinatorRecord) -> str:
    key = decode_transaction_log_key(record.key)
    assert record.value is not None
    value = decode_transaction_log_value(record.value)
    partitions = [
        f"{topic.topic}-{number}"
        for topic in value.transaction_partitions or ()
        for number in topic.partition_ids
    ]
    return (
        f"append {key.transactional_id} {TransactionState(value.transaction_status).name} "
        f"producer={value.producer_id}/{value.producer_epoch} "
        f"last_epoch={value.last_producer_epoch} "
        f"previous_id={value.previous_producer_id} next_id={value.next_producer_id} "
        f"timeout={value.transaction_timeout_ms} partitions={','.join(partitions) or 'none'} "
        f"start={time(value.transaction_start_timestamp_ms)} "
        f"updated={time(value.transaction_last_update_timestamp_ms)} "
        f"client_version={value.client_transaction_version}"
    )


def fence_text(fence: Fence) -> str:
    by = "no request" if fence.by is None else fence.by.client_id
    aborted = "aborted" if fence.aborted else "nothing aborted"
    return (
        f"{fence.transactional_id} {fence.producer_id}/{fence.producer_epoch}: "
        f"{fence.cause.value}, by {by}, {aborted}"
    )


def result_text(result: TransactionResult) -> str:
    text = result.code.name
    if result.producer_id >= 0:
        text += f" producer={result.producer_id}/{result.producer_epoch}"
    return text


SHOWN: EffectTexts = {
    Pending: lambda effect: f"{effect.target.transactional_id} {effect.target.state.name}",
    GenerationPending: lambda effect: str(effect.membership),
    Fenced: lambda effect: fence_text(effect.fence),
    ProducerRefused: lambda effect: (
        f"{effect.transactional_id} {effect.producer_id}/{effect.producer_epoch}"
    ),
    RefusalCounted: lambda effect: "unknown" if effect.cause is None else effect.cause.value,
    ClientKnown: lambda effect: (
        f"{effect.transactional_id} {effect.client.client_id if effect.client else 'none'}"
    ),
    StartTimer: lambda effect: f"{effect.transactional_id} deadline=+{effect.deadline_ms}",
    WriteMarkers: lambda effect: ",".join(effect.transactional_ids),
    ReleaseResponse: lambda effect: f"{effect.transactional_id} {result_text(effect.result)}",
    CompleteLater: lambda effect: f"{effect.work.transactional_id} attempt={effect.attempt}",
}


class Scenario:
    """A coordinator of the id `t`. Every step is a command of the trace, also markers, COMPLETE,
    and the passing of time."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.driver = Driver(
            now_ms=0,
            log=TracedLog(lambda record: self.trace.add(record_text(record))),
            finishes=False,
        )
        # If COMPLETE fails, the coordinator schedules a retry, and the trace has a command instead.
        later: EffectRow[TransactionShard] = EffectRow(failed=lambda shard, effect, code: None)
        self.driver.effects = self.trace.effects(
            {**self.driver.effects, CompleteLater: later}, SHOWN
        )
        self.commands: Commands = {
            "init": self.init,
            "add": self.add,
            "end": self.end,
            "markers": self.markers,
            "complete": self.complete,
            "respond": self.respond,
            "pass": self.pass_time,
            "abort-overdue": self.abort_overdue,
            "hold-commits": self.hold_commits,
            "release-commits": self.release_commits,
            "fail-appends": self.fail_appends,
            "mend-appends": self.mend_appends,
            "crash": self.crash,
            "stored": self.stored,
        }

    # --- requests

    def init(self, command: Command) -> None:
        """InitProducerId. Without `producer`, the request is from a new instance."""
        producer = producer_of(command.take("producer", "-1/-1"))
        client_id = command.take("client", "client")
        response = self.driver.init(
            *producer,
            timeout_ms=command.number("timeout", 60_000),
            caller=Client(client_id, "/127.0.0.1"),
        )
        self.trace.response(f"init of {client_id}", response, result_text)

    def add(self, command: Command) -> None:
        """AddPartitionsToTxn by a client of transaction version 2."""
        producer = producer_of(command.take("producer", ""))
        response = self.driver.add(*producer, *map(partition_of, command.all_words()))
        self.trace.response("add", response, result_text)

    def end(self, command: Command) -> None:
        """EndTxn. From version 5 on the coordinator bumps the epoch."""
        producer = producer_of(command.take("producer", ""))
        outcome = command.word()
        response = self.driver.end(
            *producer,
            {"commit": True, "abort": False}[outcome],
            bumps_epoch=command.number("version", 5) >= FIRST_BUMPING_VERSION,
        )
        self.trace.response(f"end {outcome} of {producer[0]}/{producer[1]}", response, result_text)

    # --- the coordinator's own steps

    def markers(self, command: Command) -> None:
        """Write at most `count` of the markers."""
        before = len(self.driver.markers)
        self.driver.write_markers(ID, command.number("count", 100))
        for work, partition in self.driver.markers[before:]:
            self.trace.add(
                f"marker {'COMMIT' if work.committed else 'ABORT'} "
                f"{partition.topic}-{partition.partition} "
                f"producer={work.producer_id}/{work.producer_epoch} "
                f"coordinator_epoch={work.coordinator_epoch}"
            )

    def complete(self, command: Command) -> None:
        decision = self.driver.complete(ID)
        if decision is not None:
            self.driver.run(decision)

    def respond(self, command: Command) -> None:
        """Send the response of EndTxn before COMPLETE, because some markers take longer."""
        self.driver.shard.release(ID)

    def abort_overdue(self, command: Command) -> None:
        self.driver.abort_overdue()

    # --- time, disk, crashes

    def pass_time(self, command: Command) -> None:
        self.driver.now_ms += int(command.word())

    def hold_commits(self, command: Command) -> None:
        self.driver.holds_commits = True

    def release_commits(self, command: Command) -> None:
        self.driver.holds_commits = False
        self.driver.release()

    def fail_appends(self, command: Command) -> None:
        self.driver.append_error = ErrorCode[command.word()]

    def mend_appends(self, command: Command) -> None:
        self.driver.append_error = None

    def crash(self, command: Command) -> None:
        """Another coordinator loads the log, with the next coordinator epoch."""
        self.driver.crash(down_ms=command.number("down", 0))

    def stored(self, command: Command) -> None:
        """Append a record with this state and producer to the log, as an older coordinator did, and
        load the log."""
        producer_id, epoch = producer_of(command.take("producer", ""))
        self.driver.put(
            TransactionState[command.word()],
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=-1,
        )


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_scenario_has_the_results_of_its_trace(path: Path) -> None:
    scenario = Scenario()
    expected, found = rewritten(path, scenario.commands, scenario.trace)
    assert found == expected


def test_there_are_traces() -> None:
    assert TRACES
