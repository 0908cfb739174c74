"""Named mutants of searches by time."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TIMES: Final = "server/oncelog_server/log/timestamps.py"
_HANDLER: Final = "server/oncelog_server/handlers/list_offsets.py"
_OF_LOG: Final = ("tests/server/log/test_timestamps.py",)
_OF_HANDLER: Final = ("tests/server/handlers/test_list_offsets.py",)

SEARCH_MUTANTS: Final = (
    Mutant(
        "TS1",
        "a search in a large batch blocks the event loop",
        _TIMES,
        "            if not number % STEP_RECORDS:\n",
        "            if False:\n",
        _OF_LOG,
    ),
    Mutant(
        "TS2",
        "a search among records that were written again with old times blocks the event loop",
        _TIMES,
        "            if not number % STEP_BATCHES:\n",
        "            if False:\n",
        _OF_LOG,
    ),
    Mutant(
        "TS3",
        "a search in a single partition blocks the event loop",
        _HANDLER,
        "        wanted.count_from >= 0 or _needs_search(wanted.timestamp)\n",
        "        wanted.count_from >= 0\n",
        _OF_HANDLER,
    ),
    Mutant(
        "TS4",
        "a search returns a record that retention has deleted meanwhile",
        _HANDLER,
        "            if found is None or found.offset >= now or now == start:\n",
        "            if True:\n",
        _OF_HANDLER,
    ),
    Mutant(
        "TS5",
        "a search in a partition that is deleted meanwhile reports a failure of the disk",
        _HANDLER,
        "        _require_unchanged(services, partition, wanted)\n        raise\n",
        "        raise\n",
        _OF_HANDLER,
    ),
    Mutant(
        "TS6",
        "a search returns a record of a partition that has moved meanwhile",
        _HANDLER,
        "    _require_unchanged(services, partition, wanted)\n    return found\n",
        "    return found\n",
        _OF_HANDLER,
    ),
    Mutant(
        "TS7",
        "a search keeps the indexes of a segment that is no longer in the log",
        _TIMES,
        "        if self._segments.from_offset(segment.base_offset)[0] is segment:\n",
        "        if True:\n",
        _OF_LOG,
    ),
)
