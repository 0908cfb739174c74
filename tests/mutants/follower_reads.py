"""Named mutants of the partitions that a follower's Fetch reads or leaves out."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_UNREAD: Final = "server/oncelog_server/fetching/unread.py"
_READS: Final = ("tests/server/fetching/test_unread.py",)

FOLLOWER_READ_MUTANTS: Final = (
    Mutant(
        "FR1",
        "a Fetch leaves out a partition although the follower is not in the ISR",
        _UNREAD,
        "            and self._broker_id in partition.replicas.isr\n",
        "",
        _READS,
    ),
    Mutant(
        "FR2",
        "a Fetch leaves out a partition with records that the follower does not have",
        _UNREAD,
        "            and row.fetch_offset == partition.log_end_offset\n",
        "",
        _READS,
    ),
    Mutant(
        "FR3",
        "a Fetch leaves out a partition right after a response with news",
        _UNREAD,
        "            not is_news\n            and row",
        "            row",
        _READS,
    ),
    Mutant(
        "FR4",
        "the first partitions of a session take all bytes of each response",
        _UNREAD,
        "            self._rows[key] = self._rows.pop(key, row)\n",
        "            self._rows.setdefault(key, row)\n",
        _READS,
    ),
    Mutant(
        "FR5",
        "a follower that fetches leaves the ISR of an idle partition",
        _UNREAD,
        "            watch.partition.replicas.was_caught_up(self._broker_id, self.fetched_ms)\n",
        "",
        _READS,
    ),
    Mutant(
        "FR6",
        "a partition that was closed and opened again is never read again",
        _UNREAD,
        "        if watch is None or watch.partition is not partition:\n",
        "        if watch is None:\n",
        _READS,
    ),
    Mutant(
        "FR7",
        "a session keeps a deleted partition in memory",
        _UNREAD,
        "        elif self._on_append is None:\n            # No Fetch",
        "        elif False:\n            # No Fetch",
        _READS,
    ),
    Mutant(
        "FR8",
        "the response of an older Fetch ends the wait of a later one",
        _UNREAD,
        "        if on_append is None or on_append == self._on_append:\n",
        "        if True:\n",
        _READS,
    ),
    Mutant(
        "FR9",
        "a partition that has left the session is still watched",
        _UNREAD,
        "        self._rows.pop(key, None)\n        self._end_watch(key)\n",
        "        self._rows.pop(key, None)\n",
        _READS,
    ),
    Mutant(
        "FR10",
        "a session that has ended still watches its partitions",
        _UNREAD,
        "        for watch in self._watches.values():\n            watch.end()\n",
        "",
        _READS,
    ),
    Mutant(
        "FR11",
        "a new high watermark does not bring a partition back",
        _UNREAD,
        "        partition.read_waiters.add(self._advanced)\n",
        "",
        _READS,
    ),
    Mutant(
        "FR12",
        "an append does not bring a partition back",
        _UNREAD,
        "        partition.follower_waiters.add(self._appended)\n",
        "",
        _READS,
    ),
)
