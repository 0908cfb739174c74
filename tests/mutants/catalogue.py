"""All named mutants. This module defines those that change the server on one broker. The other
mutants come from `access.py` (access rules), `authentication.py`, `broker_settings.py` (dynamic
settings, throttles, features), `cold_reads.py` (records only on the disk), `elections.py` (ISR and
elections), `flushes.py` (a failed fsync), `follower_reads.py` (the partitions that a follower's
Fetch reads), `frames.py` (buffers of requests, marks of sockets), `machine.py` (several brokers on
one machine), `owners.py` (producer ids of principals), `quotas.py`, `reassignments.py`,
`remote_groups.py`, `replication.py`, `searches.py` (ListOffsets by time), `self_fencing.py`,
`situations.py` (defects that only a special situation shows), `sink.py` (the Spark sink),
`starting.py` and `stopping.py` (the start and the stop of a broker).
"""

from __future__ import annotations

from typing import Final

from tests.mutants.access import ACCESS_MUTANTS
from tests.mutants.authentication import AUTHENTICATION_MUTANTS
from tests.mutants.broker_settings import BROKER_SETTINGS_MUTANTS
from tests.mutants.cold_reads import COLD_READ_MUTANTS
from tests.mutants.elections import ELECTION_MUTANTS
from tests.mutants.flushes import FLUSH_MUTANTS
from tests.mutants.follower_reads import FOLLOWER_READ_MUTANTS
from tests.mutants.frames import FRAME_MUTANTS
from tests.mutants.machine import MACHINE_MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.owners import OWNER_MUTANTS
from tests.mutants.quotas import QUOTA_MUTANTS
from tests.mutants.reassignments import REASSIGNMENT_MUTANTS
from tests.mutants.remote_groups import REMOTE_GROUP_MUTANTS
from tests.mutants.replication import REPLICATION_MUTANTS
from tests.mutants.searches import SEARCH_MUTANTS
from tests.mutants.self_fencing import SELF_FENCING_MUTANTS
from tests.mutants.sink import SINK_MUTANTS
from tests.mutants.situations import SITUATION_MUTANTS
from tests.mutants.starting import STARTING_MUTANTS
from tests.mutants.steps import STEP_MUTANTS
from tests.mutants.stopping import STOPPING_MUTANTS

_SERVER: Final = "server/oncelog_server"
_PRODUCERS: Final = f"{_SERVER}/log/producers.py"
_TRANSACTIONS: Final = f"{_SERVER}/transaction/coordinator.py"
_RUNTIME: Final = f"{_SERVER}/coordinator/runtime.py"
_SHARD: Final = f"{_SERVER}/transaction/shard.py"

_LOG: Final = ("tests/server/log/test_producers.py", "tests/server/log/test_transactions.py")
_PARTITION: Final = (
    "tests/server/partition/test_isolation.py",
    "tests/server/partition/test_partition.py",
)
_COORDINATION: Final = (
    "tests/server/transaction/test_coordinator.py",
    "tests/server/transaction/test_marker_delivery.py",
    "tests/simulation/test_crash_matrix.py",
)
_TIMEOUTS: Final = (
    "tests/server/transaction/commands/test_add_partitions.py",
    "tests/server/transaction/test_timeouts.py",
)
_OFFSETS: Final = (
    "tests/server/group/test_offsets.py",
    "tests/server/group/test_transactional_offsets.py",
)

MUTANTS: Final = (
    Mutant(
        "M1",
        "the producer epoch of data is not checked",
        _PRODUCERS,
        "        if epoch < entry.producer_epoch:\n",
        "        if False:\n",
        _LOG,
    ),
    Mutant(
        "M2",
        "the producer epoch of markers is not checked",
        _PRODUCERS,
        "        stale = producer_epoch < entry.producer_epoch\n",
        "        stale = False\n",
        _LOG,
    ),
    Mutant(
        "M3",
        "a marker of the same epoch is refused",
        _PRODUCERS,
        "        stale = producer_epoch < entry.producer_epoch\n",
        "        stale = producer_epoch <= entry.producer_epoch\n",
        _LOG,
    ),
    Mutant(
        "M4",
        "the coordinator epoch of markers is not checked",
        _PRODUCERS,
        "        if coordinator_epoch < entry.coordinator_epoch:\n",
        "        if False:\n",
        _LOG,
    ),
    Mutant(
        "M5",
        "the last stable offset is one too high",
        f"{_SERVER}/partition/partition.py",
        "        return max(min(self.high_watermark, unstable), self._log.log_start_offset)\n",
        "        return max(min(self.high_watermark, unstable + 1), self._log.log_start_offset)\n",
        _PARTITION,
    ),
    Mutant(
        "M6",
        "the last stable offset passes markers above the high watermark",
        _PRODUCERS,
        "                return decided if first is None else min(first, decided)\n",
        "                return first\n",
        _PARTITION,
    ),
    Mutant(
        "M7",
        "no index row for an abort that began in an earlier segment",
        f"{_SERVER}/log/log.py",
        "        if completed is not None and not committed:\n",
        "        first = -1 if completed is None else completed.first_offset\n"
        "        begins_here = first >= self.segments.active.base_offset\n"
        "        if completed is not None and not committed and begins_here:\n",
        _LOG,
    ),
    Mutant(
        "M8",
        "an abort writes COMMIT on its last partition",
        f"{_SERVER}/transaction/marker_delivery.py",
        "                committed=work.committed,\n",
        "                committed=work.committed or topic_partition == work.partitions[-1],\n",
        _COORDINATION,
    ),
    Mutant(
        "M9",
        "a response does not wait for the high watermark",
        _RUNTIME,
        "            pass_on(final, parked)\n\n"
        "        loaded.partition.when_committed(end_offset, settled)\n"
        "        return parked\n",
        "            pass_on(final, parked)\n\n"
        "        loaded.partition.when_committed(end_offset, settled)\n"
        "        return response\n",
        _COORDINATION,
    ),
    Mutant(
        "M10",
        "markers leave before PREPARE is committed",
        _RUNTIME,
        "        if loaded.partition.high_watermark >= end_offset:\n",
        "        if decision.effects or loaded.partition.high_watermark >= end_offset:\n",
        _COORDINATION,
    ),
    Mutant(
        "M11",
        "a coordinator that loads forgets the markers it owes",
        _TRANSACTIONS,
        "        for work in shard.marker_works():\n",
        "        for work in shard.marker_works()[:0]:\n",
        _COORDINATION,
    ),
    Mutant(
        "M12",
        "a retry of markers drops one partition",
        f"{_SERVER}/transaction/completion.py",
        "        _Finishing(self, shard, work, attempt).start()\n",
        "        if attempt and work.partitions:\n"
        "            shard.marker_written(work, work.partitions[-1])\n"
        "            work = shard.marker_work(transactional_id) or work\n"
        "        _Finishing(self, shard, work, attempt).start()\n",
        _COORDINATION,
    ),
    Mutant(
        "M13",
        "the timeout is measured from the last activity",
        f"{_SERVER}/transaction/commands/add_partitions.py",
        "    if not ongoing:\n",
        "    if ongoing or not ongoing:\n",
        _TIMEOUTS,
    ),
    Mutant(
        "M14",
        "the timeout begins anew after a restart",
        _SHARD,
        "            elapsed_ms = wall_ms - live.metadata.start_ms\n",
        "            elapsed_ms = 0\n",
        _TIMEOUTS,
    ),
    Mutant(
        "M15",
        "a timeout does not bump the epoch",
        f"{_SERVER}/transaction/commands/fencing.py",
        "        producer_epoch=metadata.producer_epoch + 1,\n",
        "        producer_epoch=metadata.producer_epoch,\n",
        ("tests/server/transaction/commands/test_fencing.py", *_TIMEOUTS),
    ),
    Mutant(
        "M16",
        "only a retry of the last batch is recognized",
        _PRODUCERS,
        "BATCHES_KEPT: Final = 5\n",
        "BATCHES_KEPT: Final = 1\n",
        _LOG,
    ),
    Mutant(
        "M17",
        "a repeated batch is recognized whatever its epoch",
        _PRODUCERS,
        "            if epoch == entry.producer_epoch:\n                expected = 0\n",
        "            if True:\n                expected = 0\n",
        _LOG,
    ),
    Mutant(
        "M18",
        "sequence numbers do not wrap",
        _PRODUCERS,
        "                    expected = last_sequence + 1 & _MAX_SEQUENCE\n",
        "                    expected = last_sequence + 1\n",
        _LOG,
    ),
    Mutant(
        "M19a",
        "a marker leaves the verification guard in place",
        f"{_SERVER}/partition/partition.py",
        "        self.guards.clear(producer_id)\n",
        "        pass\n",
        ("tests/server/partition/test_verification.py", "tests/server/producing/test_produce.py"),
    ),
    Mutant(
        "M19b",
        "a verification guard of an earlier transaction is accepted",
        f"{_SERVER}/partition/verification.py",
        "        return self._by_producer_id.get(producer_id) is guard\n",
        "        return producer_id in self._by_producer_id\n",
        ("tests/server/partition/test_verification.py", "tests/server/producing/test_produce.py"),
    ),
    Mutant(
        "M20",
        "offsets of a transaction can be seen before its marker",
        f"{_SERVER}/group/offsets.py",
        "        key = (topic, partition)\n"
        "        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[key] = value\n",
        "        key = (topic, partition)\n"
        "        self.commit(group_id, topic, partition, value)\n"
        "        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[key] = value\n",
        _OFFSETS,
    ),
    Mutant(
        "M21",
        "the order of markers decides between offsets, not that of records",
        f"{_SERVER}/group/offsets.py",
        "                if existing is None or existing.record_offset < value.record_offset:\n",
        "                if existing is None or existing.record_offset >= 0:\n",
        _OFFSETS,
    ),
    Mutant(
        "M22",
        "the generation of a commit is not checked",
        f"{_SERVER}/group/classic/group.py",
        "            if generation_id != self.generation_id:\n"
        "                raise Refused(ErrorCode.ILLEGAL_GENERATION)\n        elif",
        "            if False:\n"
        "                raise Refused(ErrorCode.ILLEGAL_GENERATION)\n        elif",
        ("tests/server/group/test_commits.py",),
    ),
    Mutant(
        "M23",
        "a snapshot drops open transactions",
        f"{_SERVER}/log/producer_snapshot.py",
        "        entry.current_txn_first_offset,\n",
        "        NONE,\n",
        ("tests/server/log/test_opening.py", "tests/server/log/test_properties.py"),
    ),
    Mutant(
        "M24",
        "recovery does not check the CRC of the last batch",
        f"{_SERVER}/log/scan.py",
        "                self._examine_crc(header, position) if self.check_crc else None\n",
        "                self._examine_crc(header, position)\n"
        "                if self.check_crc and position + header.size < end\n"
        "                else None\n",
        ("tests/server/log/test_scan.py", "tests/server/log/test_recovery.py"),
    ),
    Mutant(
        "M25",
        "the aborted index is not cut with the log",
        f"{_SERVER}/log/aborted.py",
        "        if self._files.exists(self._path(base_offset)):\n"
        '            write_whole(self._files, self._path(base_offset), b"")\n',
        "",
        ("tests/server/log/test_aborted.py", "tests/server/log/test_recovery.py"),
    ),
    Mutant(
        "M26",
        "a flush moves the high watermark past what it has flushed",
        f"{_SERVER}/partition/partition.py",
        "            self._advance(log_end_offset)\n\n    def recompute",
        "            self._advance(self._log.log_end_offset)\n\n    def recompute",
        (*_PARTITION, "tests/server/partition/test_group_flush.py"),
    ),
    Mutant(
        "M27",
        "a replica joins the ISR before it has reached the start of the leader epoch",
        f"{_SERVER}/replica/state.py",
        "        required = max(high_watermark, self.epoch_start_offset)\n",
        "        required = high_watermark\n",
        ("tests/server/replica/test_state.py",),
    ),
    Mutant(
        "M28",
        "the record of a transaction lacks the previous producer id",
        f"{_SERVER}/transaction/metadata.py",
        "        previous_producer_id, next_producer_id, client_transaction_version,\n",
        "        NO_PRODUCER_ID, next_producer_id, client_transaction_version,\n",
        (
            "tests/server/transaction/test_metadata.py",
            "tests/server/transaction/test_exhaustion.py",
        ),
    ),
    Mutant(
        "M30",
        "the client id __admin_client may write to internal topics",
        f"{_SERVER}/handlers/produce.py",
        "    if name in INTERNAL_TOPICS:\n",
        '    if name in INTERNAL_TOPICS and context.client_id != "__admin_client":\n',
        ("tests/server/handlers/test_produce.py",),
    ),
    *ACCESS_MUTANTS,
    *AUTHENTICATION_MUTANTS,
    *BROKER_SETTINGS_MUTANTS,
    *ELECTION_MUTANTS,
    *FLUSH_MUTANTS,
    *FOLLOWER_READ_MUTANTS,
    *FRAME_MUTANTS,
    *COLD_READ_MUTANTS,
    *MACHINE_MUTANTS,
    *OWNER_MUTANTS,
    *QUOTA_MUTANTS,
    *REASSIGNMENT_MUTANTS,
    *REMOTE_GROUP_MUTANTS,
    *REPLICATION_MUTANTS,
    *SEARCH_MUTANTS,
    *STEP_MUTANTS,
    *SELF_FENCING_MUTANTS,
    *STARTING_MUTANTS,
    *STOPPING_MUTANTS,
    *SITUATION_MUTANTS,
    *SINK_MUTANTS,
)
