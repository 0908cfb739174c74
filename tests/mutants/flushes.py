"""Named mutants of flushes: a failed fsync, and a flush that does not count."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SERVER: Final = "server/oncelog_server"
_GROUP: Final = ("tests/server/partition/test_group_flush.py",)
_FAULTS: Final = ("tests/server/log/test_faults.py", "tests/server/log/test_flushes.py")

FLUSH_MUTANTS: Final = (
    Mutant(
        "FL1",
        "a failed fsync of a roll does not take the partition offline",
        f"{_SERVER}/partition/partition.py",
        "        log.refusals.report_failure_to(lambda error: self.fail(str(error)))\n",
        "",
        _GROUP,
    ),
    Mutant(
        "FL2",
        "a flush counts before an overlapping flush has ended",
        f"{_SERVER}/log/flushes.py",
        "        if self._in_flight:\n            self._ended.append",
        "        if False:\n            self._ended.append",
        _FAULTS,
    ),
    Mutant(
        "FL3",
        "a flush that began before a truncation counts",
        f"{_SERVER}/log/log.py",
        "        if self.refusals.has_failed or not self.segments.is_uncut_since(flush):\n",
        "        if self.refusals.has_failed:\n",
        _GROUP,
    ),
    Mutant(
        "FL4",
        "a stop does not wait for the flushes of rolls",
        f"{_SERVER}/durable_logs.py",
        "    for partition in list(partitions):\n        flushed",
        "    for partition in []:\n        flushed",
        ("tests/server/test_durable_logs.py",),
    ),
)
