"""Named mutants of reads of bytes that are only on the disk."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_CACHE: Final = "server/oncelog_server/operating_system/page_cache.py"
_WAIT: Final = "server/oncelog_server/network/disk_wait.py"
_COLD: Final = "server/oncelog_server/fetching/cold_ranges.py"
_OF_CACHE: Final = ("tests/server/operating_system/test_page_cache.py",)
_OF_WAIT: Final = ("tests/server/network/test_disk_wait.py",)
_OF_FETCH: Final = ("tests/server/fetching/test_cold_ranges.py",)
_TIMES: Final = "server/oncelog_server/log/timestamps.py"
_OF_SEARCH: Final = ("tests/server/log/test_cold_search.py",)

COLD_READ_MUTANTS: Final = (
    Mutant(
        "CD1",
        "bytes between the first and the last of a range are not looked for",
        _CACHE,
        "range(position, last, _STRIDE)",
        "range(position, position + 1, _STRIDE)",
        _OF_CACHE,
    ),
    Mutant(
        "CD2",
        "a client that repeats its Fetch has the same bytes read again and again",
        _CACHE,
        "            pending.done.append(done)\n            return\n",
        "            pending.done.append(done)\n",
        _OF_CACHE,
    ),
    Mutant(
        "CD3",
        "prefetches take all threads of the fsyncs",
        _CACHE,
        "while self._waiting and self._running < PREFETCHES_AT_ONCE:",
        "while self._waiting:",
        _OF_CACHE,
    ),
    Mutant(
        "CD4",
        "bytes that were appended before a truncation count as recent",
        "server/oncelog_server/operating_system/os_files.py",
        "        self._written_from = min(self._written_from, size)\n",
        "        self._written_from = 0\n",
        _OF_CACHE,
    ),
    Mutant(
        "CD5",
        "the bytes of a response are read from the disk on the event loop",
        _WAIT,
        "            if not step.is_cached():\n",
        "            if False:\n",
        _OF_WAIT,
    ),
    Mutant(
        "CD6",
        "with too little memory for the page cache, a response waits forever",
        _WAIT,
        "        self._is_waiting = False\n        self._know(step)\n",
        "        self._is_waiting = False\n",
        _OF_WAIT,
    ),
    Mutant(
        "CD7",
        "a response that has waited for the disk is never completed",
        _WAIT,
        "        self._is_waiting = False\n        self._know(step)\n",
        "        self._know(step)\n",
        _OF_WAIT,
    ),
    Mutant(
        "CD8",
        "a small response with cold records is read from the disk on the event loop",
        "server/oncelog_server/network/outbox.py",
        "                elif part.is_cached():\n",
        "                elif True:\n",
        _OF_WAIT,
    ),
    Mutant(
        "CD9",
        "a Fetch looks for the position of cold records on the event loop",
        "server/oncelog_server/log/segment.py",
        "        return None if not near.length or near.is_cached() else near\n",
        "        return None\n",
        _OF_FETCH,
    ),
    Mutant(
        "CD10",
        "a Fetch loads the index of an old segment on the event loop",
        "server/oncelog_server/log/segment.py",
        "            return None if is_cached else whole\n",
        "            return None\n",
        _OF_FETCH,
    ),
    Mutant(
        "CD11",
        "hot records wait for cold records of another partition",
        "server/oncelog_server/fetching/fetch.py",
        "    if result.size >= min_bytes or result.is_urgent or max_wait_ms <= 0 or is_empty:\n",
        "    if not cold.has_found and (result.size >= min_bytes or is_empty):\n",
        _OF_FETCH,
    ),
    Mutant(
        "CD12",
        "one Fetch of thousands of cold partitions fills the disk's queue",
        _COLD,
        "        if len(self._found) < MOST_RANGES:\n",
        "        if True:\n",
        _OF_FETCH,
    ),
    Mutant(
        "CD13",
        "a cold partition returns a record although its bytes are only on the disk",
        "server/oncelog_server/fetching/read.py",
        "                left, is_first = 0, False\n",
        "                left = 0\n",
        _OF_FETCH,
    ),
    Mutant(
        "CD14",
        "a Fetch with min_bytes of 0 gets no records that are only on the disk",
        "server/oncelog_server/fetching/fetch.py",
        "        min_bytes, max_wait_ms = max(min_bytes, 1), max(max_wait_ms, LEAST_WAIT_MS)\n",
        "        max_wait_ms = max(max_wait_ms, LEAST_WAIT_MS)\n",
        _OF_FETCH,
    ),
    Mutant(
        "CD15",
        "records that arrive from the disk do not wake the Fetch",
        "server/oncelog_server/fetching/parked.py",
        "        if cold is not None:\n            cold.prefetch(self._wake)\n",
        "        if cold is not None:\n            cold.prefetch(lambda: None)\n",
        _OF_FETCH,
    ),
    Mutant(
        "CD16",
        "with too little memory a Fetch waits for the disk again and again",
        _COLD,
        "        self._waits += 1\n",
        "",
        _OF_FETCH,
    ),
    Mutant(
        "CD17",
        "a search by time reads batches from the disk on the event loop",
        _TIMES,
        "        if cold := ahead.cold(scan.position, header.size):\n",
        "        if cold := None:\n",
        _OF_SEARCH,
    ),
    Mutant(
        "CD18",
        "a search by time reads indexes from the disk on the event loop",
        "server/oncelog_server/log/segment.py",
        "            yield from self.cold_indexes()\n            length",
        "            length",
        _OF_SEARCH,
    ),
    Mutant(
        "CD19",
        "with too little memory a search by time waits for the disk again and again",
        "server/oncelog_server/log/look_ahead.py",
        "        self._end = position + length\n",
        "",
        _OF_SEARCH,
    ),
    Mutant(
        "CD20",
        "work that was stopped continues when its bytes arrive",
        "server/oncelog_server/slices.py",
        "            if work in self._cold:\n",
        "            if True:\n",
        ("tests/server/test_slices.py",),
    ),
)
