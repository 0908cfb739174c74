"""Random data directories that go from Apache Kafka to oncelog and back. For clients, everything
must stay as it was.

`python -m tests.faults.exchanges --folders 30` does this for 30 seeds. The broker stops or is
killed before each step, and most imports and exports die in the middle and are run again.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import click
from click.testing import CliRunner, Result

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog_protocol.messages.produce import PartitionProduceResponse
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.compression import Compression
from oncelog_server.data_directory.ownership import ForeignDirectory, check_ownership
from oncelog_server.migration import export_command, import_command
from oncelog_server.migration.commands import storage
from oncelog_server.migration.export_changes import ExportChanges
from oncelog_server.migration.import_changes import ImportChanges
from tests.faults.recoveries import GROUPS, Workload
from tests.faults.visible import Visible, visible
from tests.harness.broker import Oncelog
from tests.harness.kafka.fixtures import QUICK_RESTART
from tests.harness.kafka.kafka import Kafka
from tests.harness.waiting import wait_until
from tests.harness.writing import end_transaction, new_identity, produce, records

# The state does not change between two reads.
STILL = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    "log.cleaner.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}
# Kafka writes a snapshot of its metadata every few records, and not every 20 MB.
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "1"}
CODECS = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
# Some of these names have a negative hash, so that oncelog and Kafka look for them in different
# partitions.
MORE_GROUPS = (*GROUPS, *(f"a-group-of-consumers-{number}" for number in range(6)))


WITHOUT_LEADER = (
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class Died(Exception):
    """The import or export was interrupted before a change of the disk."""


class Traffic(Workload):
    """Random steps against either broker, with transactional offsets and compressed batches."""

    def run(self, steps: int) -> None:
        super().run(steps)
        with Wire(self.broker.address) as wire:
            for _ in range(steps):
                self._rng.choice((self._compress, self._commit_transactional_offsets))(wire)

    @staticmethod
    def _produce(*arguments: Any, **named: Any) -> PartitionProduceResponse:
        """Produce when the partition has its leader: Kafka creates topics in the background."""
        answers: list[PartitionProduceResponse] = []

        def answered() -> bool:
            answers.append(produce(*arguments, **named))
            return answers[-1].error_code not in WITHOUT_LEADER

        wait_until(answered, "a leader")
        return answers[-1]

    def _compress(self, wire: Wire) -> None:
        name, partition = self._place()
        data = build_batch(records(20), compression=self._rng.choice(CODECS))
        sent = self._produce(wire, name, data, partition=partition)
        assert sent.error_code == ErrorCode.NONE, ErrorCode(sent.error_code)

    def _commit_transactional_offsets(self, wire: Wire) -> None:
        """Commit an offset in a transaction. Some transactions stay open."""
        group = self._rng.choice(MORE_GROUPS)
        name, partition = self._place()
        producer = new_identity(wire, f"a-transactional-id-of-{group}", timeout_ms=600_000)
        id_ = producer.transactional_id or ""
        add = AddOffsetsToTxnRequest(id_, producer.producer_id, producer.producer_epoch, group)
        wait_until(lambda: wire.call(add, 3).error_code == ErrorCode.NONE, "AddOffsetsToTxn")
        offset = TxnOffsetCommitRequestPartition(partition, self._rng.randrange(100))
        commit = TxnOffsetCommitRequest(
            id_,
            group,
            producer.producer_id,
            producer.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name, partitions=[offset])],
        )
        wait_until(
            lambda: wire.call(commit, 4).topics[0].partitions[0].error_code == ErrorCode.NONE,
            "TxnOffsetCommit",
        )
        if self._rng.random() < 0.8:
            ended = end_transaction(wire, producer, commit=self._rng.random() < 0.7)
            assert ended.error_code == ErrorCode.NONE, ErrorCode(ended.error_code)

    def end_all(self) -> None:
        """End the open transactions with offsets. InitProducerId aborts them."""
        with Wire(self.broker.address) as wire:
            for group in MORE_GROUPS:
                new_identity(wire, f"a-transactional-id-of-{group}")


class Exchange:
    """One data directory on its way. `rng` chooses the steps, the stops and the deaths."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self._rng = rng
        self._directory = directory
        self._made = 0
        self.deaths = 0
        snapshots = SNAPSHOTS if rng.random() < 0.5 else {}
        self._kafka = Kafka(self._place(), STILL | QUICK_RESTART | snapshots)
        self._traffic = Traffic(self._kafka, rng)

    def run(self) -> None:
        with self._kafka as kafka:
            before = self._work(kafka)
            self._end(kafka)
        broker = self._import(kafka.data)
        with broker:
            self._check(broker, before)
            before = self._work(broker)
            broker.stop()
        kafka = self._export(broker.data)
        with kafka:
            self._check(kafka, before)

    def run_from_oncelog(self) -> None:
        """Start with a directory of oncelog, where groups and ids are in other partitions."""
        broker = Oncelog(self._place(), STILL)
        with broker:
            self._work(broker)
            self._traffic.end_all()
            before = visible(broker.address, MORE_GROUPS)
            broker.stop()
        kafka = self._export(broker.data)
        with kafka:
            self._check(kafka, before)
            before = self._work(kafka)
            self._end(kafka)
        broker = self._import(kafka.data)
        with broker:
            self._check(broker, before)

    def _work(self, broker: Kafka | Oncelog) -> Visible:
        self._traffic.broker = broker
        self._traffic.run(self._rng.randrange(5, 15))
        return visible(broker.address, MORE_GROUPS)

    def _check(self, broker: Kafka | Oncelog, before: Visible) -> None:
        after = visible(broker.address, MORE_GROUPS)
        assert after == before
        for place, epoch in before.epochs.items():
            assert after.epochs[place] > epoch, place
        with Wire(broker.address) as wire:
            given = new_identity(wire).producer_id
        assert given > max((state[1] for state in before.transactions.values()), default=-1)

    def _end(self, kafka: Kafka) -> None:
        kafka.kill() if self._rng.random() < 0.5 else kafka.stop()

    def _import(self, source: Path) -> Oncelog:
        broker = Oncelog(self._place(), STILL)
        if self._rng.random() < 0.5:
            arguments = ["import", str(source)]
            broker.directory.mkdir(parents=True, exist_ok=True)
            self._until_done(arguments, source)
            source.rename(broker.data)
        else:
            broker.directory.mkdir(parents=True, exist_ok=True)
            self._until_done(["import", str(source), "--into", str(broker.data)], broker.data)
        return broker

    def _export(self, source: Path) -> Kafka:
        kafka = Kafka(self._place(), STILL | QUICK_RESTART)
        kafka.directory.mkdir(parents=True, exist_ok=True)
        arguments = ["export", str(kafka.data), "--data", str(source)]
        self._until_done(arguments, kafka.data)
        return kafka

    def _until_done(self, arguments: list[str], target: Path) -> None:
        """Run a command until it succeeds. It dies at random changes, at most five times."""
        for _ in range(self._rng.randrange(6)):
            with dying(self._rng.randrange(1, 40)):
                try:
                    assert invoke(*arguments, "--yes").exit_code == 0
                    return
                except Died:
                    self.deaths += 1
            check_refused(target)
        result = invoke(*arguments, "--yes")
        assert result.exit_code == 0, result.output

    def _place(self) -> Path:
        self._made += 1
        return self._directory / str(self._made)


def invoke(*arguments: str) -> Result:
    """Run `oncelog storage` in this process. An unexpected exception fails the test."""
    result = CliRunner().invoke(storage, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@contextmanager
def dying(changes: int) -> Iterator[None]:
    """Interrupt an import or export after this number of changes of the disk."""

    def about_to() -> Callable[[str], None]:
        left = changes

        def die(what: str) -> None:
            nonlocal left
            if left == 0:
                raise Died(what)
            left -= 1

        return die

    def importing(source: Path, target: Path) -> ImportChanges:
        return ImportChanges(source, target, about_to())

    def exporting(source: Path, target: Path) -> ExportChanges:
        return ExportChanges(source, target, about_to())

    with (
        mock.patch.object(import_command, "ImportChanges", importing),
        mock.patch.object(export_command, "ExportChanges", exporting),
    ):
        yield


def check_refused(target: Path) -> None:
    """Check that no broker starts on an incomplete directory."""
    try:
        check_ownership(target)
    except ForeignDirectory:
        return
    raise AssertionError(f"a broker would start on {target}")


def exchange(directory: Path, seed: int) -> int:
    """Run the exchange of a seed. Return the number of deaths."""
    found = Exchange(directory, random.Random(seed))
    found.run_from_oncelog() if seed % 3 == 2 else found.run()
    return found.deaths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folders", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    for seed in range(asked.first, asked.first + asked.folders):
        with tempfile.TemporaryDirectory(prefix="exchanges-") as folder:
            deaths = exchange(Path(folder), seed)
        click.echo(f"folder {seed}: as it was, after {deaths} deaths")


if __name__ == "__main__":
    main()
