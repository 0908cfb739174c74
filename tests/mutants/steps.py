"""Named mutants of work in steps: the reading of a large batch, and the duties of partitions."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_RULES: Final = "server/oncelog_server/log/record_rules.py"
_LOG: Final = "server/oncelog_server/log/log.py"
_HANDLER: Final = "server/oncelog_server/handlers/produce.py"
_OF_RULES: Final = ("tests/server/log/test_prepared_batches.py",)
_OF_HANDLER: Final = ("tests/server/producing/test_preparation.py",)

STEP_MUTANTS: Final = (
    Mutant(
        "SB1",
        "the records of a batch for a compacted topic block the event loop",
        _HANDLER,
        "    elif special and (slow := slow_of(special, services.clock.now_ms())):\n",
        "    elif False:\n",
        _OF_HANDLER,
    ),
    Mutant(
        "SB2",
        "a request with very many partitions blocks the event loop for the records of one batch",
        _HANDLER,
        "            yield from prepare(slow_of(special, now_ms), now_ms)\n",
        "            pass\n",
        _OF_HANDLER,
    ),
    Mutant(
        "SB3",
        "a batch that is read in steps has the bytes of the connection's next request",
        _HANDLER,
        "                append.records = memoryview(bytearray(append.records))\n",
        "                pass\n",
        _OF_HANDLER,
    ),
    Mutant(
        "SB4",
        "a batch that was checked by earlier settings is appended",
        _LOG,
        "        if prepared is not None and prepared.rules is rules:\n",
        "        if prepared is not None:\n",
        _OF_RULES,
    ),
    Mutant(
        "SB5",
        "the records of a batch are read in a single step",
        _RULES,
        "header.records_count, STEP_RECORDS, base_offset",
        "header.records_count, 1 << 30, base_offset",
        _OF_RULES,
    ),
    Mutant(
        "SB6",
        "a new codec of the topic loses the latest timestamp of the batch",
        _RULES,
        "                    elif timestamp > max_timestamp:\n",
        "                    elif timestamp > max_timestamp == NO_TIMESTAMP:\n",
        ("tests/server/log/test_validation.py",),
    ),
    Mutant(
        "SB7",
        "a small request with many compressed batches takes a gigabyte of memory",
        "server/oncelog_server/producing/preparation.py",
        "        if copied >= MOST_BYTES:\n            return\n",
        "",
        _OF_HANDLER,
    ),
    Mutant(
        "SB8",
        "the quota of time does not count the reading of a large batch",
        "server/oncelog_server/requests/request_meter.py",
        "                    self._handler_ns += taken_ns\n",
        "",
        ("tests/server/requests/test_request_meter.py",),
    ),
    Mutant(
        "SB9",
        "retention deletes the files of a partition that was created again",
        "server/oncelog_server/background_tasks.py",
        "            return found is partition and not self._stopped\n",
        "            return not self._stopped\n",
        ("tests/server/test_background_duties.py",),
    ),
)
