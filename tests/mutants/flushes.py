"""Named mutants of flushes and refused writes: a failed fsync, bytes of a refused write."""

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
        "    for partition in list(partitions):\n        clean = await",
        "    for partition in []:\n        clean = await",
        ("tests/server/test_durable_logs.py",),
    ),
    Mutant(
        "FL5",
        "a segment is closed with the bytes of a refused write",
        f"{_SERVER}/log/log.py",
        "        self.segments.active.log.trim()\n        self.refusals.write_owed()\n",
        "        self.refusals.write_owed()\n",
        _FAULTS,
    ),
    Mutant(
        "FL6",
        "a probe does not remember the bytes that it could not cut off",
        f"{_SERVER}/operating_system/os_files.py",
        "        self.size, self._cut_pending = end, True\n        self.trim()\n",
        "        self.truncate(end)\n",
        ("tests/server/operating_system/test_os_files.py",),
    ),
)
