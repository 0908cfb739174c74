"""Random data directories that lose their metadata and are recovered. Their state must be as
before.

`python -m tests.faults.recoveries --folders 50` does this for 50 seeds. With `--from-torture` the
directories are copies that a torture run (tests/torture) makes each time it kills the broker.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import click
from click.testing import CliRunner, Result

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.describe_transactions import DescribeTransactionsRequest
from oncelog_protocol.messages.list_transactions import ListTransactionsRequest
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.store import Snapshot
from oncelog_server.metadata.text_copy import decode_copy
from oncelog_server.salvage.commands import storage
from oncelog_server.storage.layout import METADATA_COPY
from tests.faults.folders import fingerprint, lose_store, restore_metadata, save_metadata
from tests.faults.losses import DAMAGES, LOSSES
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, end_offset, last_stable_offset, values
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    init_producer_id,
    new_identity,
    produce,
)
from tests.torture.copier import GROUP
from tests.torture.photographs import photographs

GROUPS = ("readers", "writers")
# Timeout of the transactions that stay open, longer than any test.
LONG_MS = 600_000
AGED = "the metadata is older than the logs"


def run(*arguments: str) -> Result:
    """Run `oncelog storage` in this process. An unexpected exception fails the test."""
    result = CliRunner().invoke(storage, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def recover(broker: Oncelog) -> str:
    """Show the plan, check that it changes nothing, then recover. Return the output of both."""
    before = fingerprint(broker.data)
    planned = run("recover", "--data", str(broker.data), "--verbose")
    assert planned.exit_code == 0, planned.output
    assert "Nothing was changed" in planned.output
    assert fingerprint(broker.data) == before
    done = run("recover", "--data", str(broker.data), "--yes")
    assert done.exit_code == 0, done.output
    return planned.output + done.output


def recorded(broker: Oncelog) -> Snapshot:
    """Return the metadata records of a broker, from the text copy of its metadata store."""
    return decode_copy((broker.data / METADATA_COPY).read_bytes())


@dataclass
class State:
    """All state that clients and operators can see."""

    topics: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    records: dict[tuple[str, int], tuple[list[bytes], int, int]] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    transactions: dict[str, tuple[str, int, int]] = field(default_factory=dict)


def state_of(broker: Oncelog, groups: Sequence[str] = GROUPS) -> State:
    state = State()
    with Wire(broker.address) as wire:
        find_coordinator(wire, "any")
        for group in groups:
            find_coordinator(wire, group, 0)
        image = ClusterImage.of(recorded(broker))
        for name, topic in image.topics.items():
            state.topics[name] = topic.id, len(topic.partitions)
            state.settings[name] = dict(topic.settings)
            if name.startswith("__"):
                continue
            for number in range(len(topic.partitions)):
                state.records[name, number] = (
                    values(wire, name, partition=number),
                    end_offset(wire, name, number),
                    last_stable_offset(wire, name, number),
                )
        for group in groups:
            state.offsets |= group_offsets(wire, group)
        state.transactions = transaction_states(wire)
    return state


def group_offsets(wire: Wire, group: str) -> dict[tuple[str, str, int], int]:
    find_coordinator(wire, group, 0)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    answers: list[Any] = []

    def answered() -> bool:
        answers.append(wire.call(request, 8).groups[0])
        return bool(answers[-1].error_code == ErrorCode.NONE)

    wait_until(answered, f"the offsets of {group}")
    return {
        (group, topic.name, partition.partition_index): partition.committed_offset
        for topic in answers[-1].topics
        for partition in topic.partitions
    }


def transaction_states(wire: Wire) -> dict[str, tuple[str, int, int]]:
    find_coordinator(wire, "any")
    answers: list[Any] = []

    def answered() -> bool:
        answers.append(wire.call(ListTransactionsRequest(duration_filter=-1), 1))
        return bool(answers[-1].error_code == ErrorCode.NONE)

    wait_until(answered, "all transactions")
    ids = [
        transaction_state.transactional_id for transaction_state in answers[-1].transaction_states
    ]
    described = wire.call(DescribeTransactionsRequest(transactional_ids=ids), 0)
    return {
        transaction_state.transactional_id: (
            transaction_state.transaction_state,
            transaction_state.producer_id,
            transaction_state.producer_epoch,
        )
        for transaction_state in described.transaction_states
    }


class Broker(Protocol):
    """A broker of either kind."""

    @property
    def address(self) -> str: ...

    def start(self) -> object: ...

    def stop(self) -> object: ...

    def kill(self) -> object: ...


class Workload:
    """Random steps against a running broker. `broker` may be replaced by another one with the same
    data."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self.broker = broker
        self._rng = rng
        self._made = 0
        self._topics: dict[str, int] = {}
        self._open: set[str] = set()

    def run(self, steps: int) -> None:
        kinds: list[tuple[Callable[[Wire], None], int]] = [
            (self._create, 3), (self._write, 8), (self._transact, 8), (self._commit_offsets, 4),
            (self._widen, 1), (self._delete, 1), (self._take_ids, 1),
        ]  # fmt: skip
        with Wire(self.broker.address) as wire:
            self._create(wire)
            find_coordinator(wire, "any")
            for group in GROUPS:
                find_coordinator(wire, group, 0)
            for _ in range(steps):
                step = self._rng.choices(*zip(*kinds, strict=True))[0]
                step(wire)

    def restart(self) -> None:
        self.broker.kill() if self._rng.random() < 0.5 else self.broker.stop()
        self.broker.start()

    def _place(self) -> tuple[str, int]:
        name = self._rng.choice(sorted(self._topics))
        return name, self._rng.randrange(self._topics[name])

    # A subclass for another broker may wait until a new topic has a leader.
    _produce = staticmethod(produce)

    def _create(self, wire: Wire) -> None:
        self._made += 1
        # Some names have the maximum length. The directory of such a topic gets a shorter name when
        # it becomes a stray.
        name = f"t{self._made}" + "-long" * (48 if self._rng.random() < 0.2 else 0)
        self._topics[name] = self._rng.randrange(1, 5)
        own: dict[str, object] = {"retention_ms": self._rng.randrange(10**9, 10**10)}
        if self._rng.random() < 0.3:
            own["segment_bytes"] = 1 << 20
        create(wire, name, partitions=self._topics[name], **own)

    def _write(self, wire: Wire) -> None:
        name, partition = self._place()
        producer = new_identity(wire)
        for sequence in range(self._rng.randrange(1, 4)):
            data = batch(producer, sequence, value=b"%d" % self._rng.getrandbits(32))
            sent = self._produce(wire, name, data, partition=partition)
            assert sent.error_code == ErrorCode.NONE, ErrorCode(sent.error_code)

    def _transact(self, wire: Wire) -> None:
        # Some stay open. They must not time out before the state is compared.
        producer = new_identity(wire, f"id-{self._rng.randrange(6)}", timeout_ms=LONG_MS)
        for _ in range(self._rng.randrange(1, 3)):
            name, partition = self._place()
            data = batch(
                Identity(producer.producer_id, producer.producer_epoch, producer.transactional_id),
                0,
            )
            sent = self._produce(wire, name, data, producer=producer, partition=partition)
            assert sent.error_code in (ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if self._rng.random() < 0.9:
            end_transaction(wire, producer, commit=self._rng.random() < 0.7)

    def _commit_offsets(self, wire: Wire) -> None:
        name, partition = self._place()
        offset = OffsetCommitRequestPartition(partition, self._rng.randrange(100))
        request = OffsetCommitRequest(
            group_id=self._rng.choice(GROUPS),
            topics=[OffsetCommitRequestTopic(name, partitions=[offset])],
        )
        wait_until(
            lambda: wire.call(request, 8).topics[0].partitions[0].error_code == ErrorCode.NONE,
            "a commit of offsets",
        )

    def _widen(self, wire: Wire) -> None:
        name, _ = self._place()
        count = self._topics[name] + self._rng.randrange(1, 3)
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)], 10_000)
        answer = wire.call(request, 3).results[0]
        assert answer.error_code == ErrorCode.NONE, answer
        self._topics[name] = count

    def _delete(self, wire: Wire) -> None:
        if len(self._topics) < 2:
            return
        name, _ = self._place()
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        assert wire.call(request, 6).responses[0].error_code == ErrorCode.NONE
        del self._topics[name]

    def _take_ids(self, wire: Wire) -> None:
        for _ in range(self._rng.randrange(1, 600)):
            init_producer_id(wire, None)


def random_folder(directory: Path, seed: int) -> str:
    """Create a directory, lose metadata, recover, and check the state. Return the output of the
    recovery."""
    rng = random.Random(seed)
    broker = Oncelog(directory, QUICK)
    try:
        broker.start()
        workload = Workload(broker, rng)
        for _ in range(rng.randrange(1, 3)):
            workload.run(rng.randrange(5, 25))
            workload.restart()
        before = state_of(broker)
        broker.kill() if rng.random() < 0.5 else broker.stop()
        keeps_copy = rng.random() < 0.5
        lose_store(broker, copy=not keeps_copy)
        if rng.random() < 0.3:
            (broker.data / "meta.properties").unlink()
        recovered = recover(broker)
        broker.start()
        after = state_of(broker)
        if not keeps_copy:
            _check_kept_settings(before, after)
        assert after == before
        with Wire(broker.address) as wire:
            given = new_identity(wire).producer_id
        assert given > max(
            (transaction[1] for transaction in before.transactions.values()), default=-1
        )
        return recovered
    finally:
        broker.kill()


# With these settings the broker's state does not change between two reads.
STILL: Mapping[str, str] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    "log.cleaner.enable": "false",
}


def folder_of_the_torture(directory: Path, older: Path, lost: str, *, killed: bool) -> None:
    """Read the state of a directory that a kill of the broker left behind. Lose its metadata,
    recover, and compare the states. `older`: the metadata at the first kill. `lost`: a key of
    LOSSES or DAMAGES, or AGED. `killed`: before the loss, the broker is killed and not stopped."""
    broker = Oncelog(directory, STILL)
    try:
        broker.start()
        before = state_of(broker, (GROUP,))
        assert before.offsets  # fails only if the kill came before any transaction
        broker.kill() if killed else broker.stop()
        if lost == AGED:
            restore_metadata(broker, older)
            if "Nothing to do" not in run("recover", "--data", str(broker.data)).output:
                recover(broker)
        else:
            (LOSSES | DAMAGES)[lost](broker)
            recover(broker)
        broker.start()
        after = state_of(broker, (GROUP,))
        if "all metadata" in lost or "and its copy" in lost:
            _check_kept_settings(before, after)
        assert after == before, lost
        with Wire(broker.address) as wire:
            given = new_identity(wire).producer_id
        assert given > max(
            (transaction[1] for transaction in before.transactions.values()), default=-1
        )
    finally:
        broker.kill()


def folders_of_the_torture(
    directory: Path, count: int, seed: int, tell: Callable[[str], None]
) -> Iterator[str]:
    """Recover `count` directories, and yield the loss of each after its recovery."""
    rng = random.Random(seed)
    aged = directory / "aged"
    for number, place in enumerate(photographs(directory, count, seed, tell)):
        broker = Oncelog(place)
        if number == 0:
            save_metadata(broker, aged)
        lost = rng.choice([*LOSSES, *DAMAGES, AGED])
        # After a kill, sqlite's write-ahead log has the pages that the damage removes from the
        # file. So DAMAGES need a clean stop.
        killed = lost not in DAMAGES and rng.random() < 0.5
        folder_of_the_torture(place, aged, lost, killed=killed)
        yield lost


def _check_kept_settings(before: State, after: State) -> None:
    """Check that the recovered settings delete no records, then make both states' settings
    equal."""
    for name, settings in after.settings.items():
        if not name.startswith("__"):
            assert settings == {"retention.ms": "-1", "retention.bytes": "-1"}, name
    after.settings = before.settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folders", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--from-torture", action="store_true")
    asked = parser.parse_args()
    if asked.from_torture:
        with tempfile.TemporaryDirectory(prefix="recoveries-") as folder:
            lost = folders_of_the_torture(Path(folder), asked.folders, asked.first, print)
            for number, value in enumerate(lost):
                print(f"folder {number}, {value}: as it was", flush=True)  # noqa: T201 - a program
        return
    for seed in range(asked.first, asked.first + asked.folders):
        with tempfile.TemporaryDirectory(prefix="recoveries-") as folder:
            random_folder(Path(folder), seed)
        click.echo(f"folder {seed}: as it was")


if __name__ == "__main__":
    main()
