"""Generated mutants that behave like the original code, so that no test can find them. Each has a
reason."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.mutants.generic import diff_of
from tests.mutants.mutant import Mutant


class Excused(NamedTuple):
    """`was` and `becomes`: the lines that the mutant changes, before and after the change, joined
    by single spaces. `why`: the reason for which the behavior stays the same."""

    file: str
    was: str
    becomes: str
    why: str


_TRANSACTION: Final = "server/oncelog_server/transaction"
_PARTITION: Final = "server/oncelog_server/partition"

EXCUSED: Final = (
    Excused(
        f"{_PARTITION}/refused_sequences.py",
        "MOST_PRODUCERS: Final = 1_000",
        "MOST_PRODUCERS: Final = 1001",
        "only bounds memory, and 1,001 producers take about as much memory as 1,000",
    ),
    Excused(
        f"{_TRANSACTION}/commands/end_txn.py",
        "if metadata.next_producer_epoch >= 0 and metadata.is_kept:",
        "if (metadata.next_producer_epoch >= 0 or metadata.is_kept):",
        "is_kept requires a next epoch, and other states that EndTxn ends have no next epoch",
    ),
    Excused(
        f"{_TRANSACTION}/groups.py",
        "newest = max(self._newest.get(key.group_id, -1), value.generation_id)",
        "newest = max(self._newest.get(key.group_id, 0), value.generation_id)",
        "a request with a generation below 0 is refused, so no record has one",
    ),
    Excused(
        f"{_TRANSACTION}/commands/keep_prepared.py",
        "effects.insert(0, fenced(live, reason, wall_ms, aborts=False))",
        "effects.insert(1, fenced(live, reason, wall_ms, aborts=False))",
        "the two effects change different things in one turn, so their order is not visible",
    ),
    Excused(
        f"{_TRANSACTION}/grouped/restart.py",
        "AT_ONCE: Final = 500",
        "AT_ONCE: Final = 499",
        "only bounds the size of one batch, and 499 is as good a bound as 500",
    ),
    Excused(
        f"{_TRANSACTION}/listing.py",
        "longer_than_ms: int = -1",
        "longer_than_ms: int = (-2)",
        "any duration below 0 means that there is no filter",
    ),
    Excused(
        "server/oncelog_server/fetching/fetched_partition.py",
        "last_sent_log_start_offset: int = -1",
        "last_sent_log_start_offset: int = (-2)",
        "no log starts below 0, so the first log start offset differs from -1 and from -2",
    ),
    Excused(
        "server/oncelog_server/log/cleaner/replacement.py",
        "self._base_offset = -1",
        "self._base_offset = (-2)",
        "no segment begins below 0",
    ),
    Excused(
        "server/oncelog_server/log/cleaner/segments.py",
        "self._latest = (_NO_TIMESTAMP, 0)",
        "self._latest = (_NO_TIMESTAMP, (-1))",
        "the time index takes no entry without a timestamp",
    ),
    Excused(
        "server/oncelog_server/log/timestamps.py",
        "if segment.end_offset <= self._log_start_offset or segment.base_offset >= limit:",
        "if (segment.end_offset < self._log_start_offset) or segment.base_offset >= limit:",
        "only saves a read, because the records before the log start are skipped anyway",
    ),
    Excused(
        "server/oncelog_server/network/outbox.py",
        "SENDFILE_BYTES: Final = 64 << 10",
        "SENDFILE_BYTES: Final = 63 << 10",
        "chosen by measurement, and a slightly smaller value is as good",
    ),
    Excused(
        "protocol/oncelog_protocol/codegen.py",
        "self._names += 1",
        "self._names += 2",
        "the generated names only have to differ",
    ),
    Excused(
        "protocol/oncelog_protocol/records/record.py",
        "MIN_HEADER_SIZE: Final = 2",
        "MIN_HEADER_SIZE: Final = 1",
        "only saves work, because headers that do not fit into the record are refused later anyway",
    ),
    Excused(
        "server/oncelog_server/network/outbox.py",
        "return type(part) is FileRange",
        "return True",
        "only saves work, because the path for responses with file ranges can send any response",
    ),
    Excused(
        "server/oncelog_server/log/epoch_file.py",
        "self._unsynced = False",
        "pass",
        "the only caller closes the log afterwards, so it takes the unsynced files only once",
    ),
)


def difference(mutant: Mutant) -> tuple[str, str]:
    """Return the lines before and after the change, in the form of Excused."""
    lines = diff_of(mutant)
    was, becomes = (
        " ".join(" ".join(line[1:] for line in lines if line.startswith(sign)).split())
        for sign in "-+"
    )
    return was, becomes


def excuse_for(mutant: Mutant) -> str | None:
    """Return the reason for which a mutant is excused, or None."""
    was, becomes = difference(mutant)
    found = (excuse.why for excuse in EXCUSED if excuse[:3] == (mutant.file, was, becomes))
    return next(found, None)
