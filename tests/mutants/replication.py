"""Named mutants of replication: the fetches that count, the place of a cut, the ISR."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PARTITION: Final = "server/oncelog_server/partition"
_FETCHER: Final = "server/oncelog_server/fetcher"
_LEADER: Final = ("tests/server/fetching/test_followers.py",)
_FOLLOWER: Final = (
    "tests/server/fetcher/test_leader_fetcher.py",
    "tests/server/fetcher/test_replication.py",
)
_ISR: Final = ("tests/server/partition/test_isr_updates.py",)

REPLICATION_MUTANTS: Final = (
    Mutant(
        "F1",
        "a fetch of another leader epoch counts",
        "server/oncelog_server/fetching/read.py",
        "    partition.check_leader(wanted.current_leader_epoch)\n    check_follower",
        "    check_follower",
        _LEADER,
    ),
    Mutant(
        "F2",
        "a fetch of an earlier registration counts",
        f"{_PARTITION}/follower_fetch.py",
        "    if NO_EPOCH != follower.broker_epoch < follower.alive_epoch:\n",
        "    if False:\n",
        _LEADER,
    ),
    Mutant(
        "F3",
        "a parked fetch counts again at each of its reads",
        f"{_PARTITION}/follower_fetch.py",
        "    if follower.is_repeated or not partition.log_start_offset",
        "    if not partition.log_start_offset",
        _LEADER,
    ),
    Mutant(
        "F4",
        "a follower with a log that differs counts",
        "server/oncelog_server/fetching/read.py",
        "    check_follower(partition, follower, wanted.current_leader_epoch)\n",
        "    check_follower(partition, follower, wanted.current_leader_epoch)\n"
        "    record_fetch(partition, follower, wanted.fetch_offset)\n",
        _LEADER,
    ),
    Mutant(
        "DR1",
        "deleted records come back with the next leader",
        "server/oncelog_server/replica/state.py",
        "            if is_alive(broker_id)\n",
        "            if not is_alive(broker_id)\n",
        ("tests/server/partition/test_replicated_deletion.py",),
    ),
    Mutant(
        "DR2",
        "a follower does not report that it has deleted records",
        "server/oncelog_server/fetcher/leader_fetcher.py",
        "        if size or log.partition.log_start_offset != start:\n",
        "        if size:\n",
        ("tests/server/replication/test_replication.py",),
    ),
    Mutant(
        "CU1",
        "a log is cut although this broker leads the partition by now",
        f"{_FETCHER}/leader_fetcher.py",
        "            if self._cutting.get(followed.key) is not followed:\n",
        "            if False:\n",
        ("tests/server/fetcher/test_leader_fetcher.py",),
    ),
    Mutant(
        "CU2",
        "a follower acknowledges records that its disk has refused to sync",
        "server/oncelog_server/links/fetcher.py",
        "                    self.fetcher.forget(partition)",
        "                    pass",
        ("tests/server/links/test_fetcher.py",),
    ),
    Mutant(
        "CU3",
        "a former leader acknowledges records that are not on its disk",
        f"{_FETCHER}/leader_fetcher.py",
        "        if self._syncs and partition.recovery_point < partition.log_end_offset:\n",
        "        if False:\n",
        ("tests/server/links/test_fetcher.py",),
    ),
    Mutant(
        "F5",
        "after an unknown outcome the ISR is not maximal",
        f"{_PARTITION}/isr_updates.py",
        "        elif self._unknown.get(partition) != proposal.partition_epoch:\n",
        "        if True:\n",
        _ISR,
    ),
    Mutant(
        "F6",
        "a follower does not check the CRC",
        "server/oncelog_server/log/replicated.py",
        "        if compute_crc(view, position, header.size) != header.crc:\n",
        "        if False:\n",
        _FOLLOWER,
    ),
    Mutant(
        "F7",
        "a log is cut before its recovery point is on disk",
        f"{_FETCHER}/leader_fetcher.py",
        "must_wait = followed.log.lower_recovery_point(followed.cut) or must_wait\n",
        "followed.log.lower_recovery_point(followed.cut)\n",
        _FOLLOWER,
    ),
    Mutant(
        "F8",
        "a follower is cut at the leader's end of an epoch that it does not have",
        f"{_PARTITION}/follower_log.py",
        "        if own_epoch != epoch:\n            return min(own_end_offset, self.end_offset)\n",
        "        if own_epoch != epoch:\n            return min(end_offset, self.end_offset)\n",
        _FOLLOWER,
    ),
    Mutant(
        "F9",
        "recovery accepts a leader epoch that falls",
        "server/oncelog_server/log/scan.py",
        "        if epoch == -1 or epoch >= self.leader_epoch:\n",
        "        if True:\n",
        ("tests/server/log/test_recovery.py",),
    ),
    Mutant(
        "F10",
        "the high watermark moves below the min ISR",
        "server/oncelog_server/replica/state.py",
        "        return self.is_under_min_isr or self._has_elr\n",
        "        return self._has_elr\n",
        ("tests/server/replica/test_state.py",),
    ),
    Mutant(
        "F11",
        "an append wakes no follower",
        f"{_PARTITION}/partition.py",
        "            self.follower_waiters.wake_all()\n        log = self._log\n",
        "            pass\n        log = self._log\n",
        ("tests/server/handlers/test_follower_fetch.py",),
    ),
    Mutant(
        "F12",
        "a follower takes over the leader's high watermark beyond its own log",
        f"{_PARTITION}/partition.py",
        "        known = min(max(high_watermark, self.high_watermark), log.log_end_offset)\n",
        "        known = max(high_watermark, self.high_watermark)\n",
        _FOLLOWER,
    ),
    Mutant(
        "F13",
        "a response of an earlier leader is appended",
        f"{_FETCHER}/followed.py",
        "            and sent.current_leader_epoch == self.leader_epoch\n",
        "",
        _FOLLOWER,
    ),
    Mutant(
        "F14",
        "a follower outside of the ISR joins although it has registered again",
        "server/oncelog_server/replica/state.py",
        "            and (epochs is None or _is_eligible(broker_id, follower, epochs))\n",
        "",
        _ISR,
    ),
)
