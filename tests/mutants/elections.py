"""Named mutants of the ISR and of elections: which replicas the high watermark waits for, which may
lead, and what a write compares. The exploration of replication finds them."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SERVER: Final = "server/oncelog_server"
_CHANGE: Final = f"{_SERVER}/cluster/partition_change.py"
_DIRECTORIES: Final = ("tests/server/cluster/test_replica_directories.py",)
_EXPLORATION: Final = ("tests/exploration/replication/test_replication.py",)

ELECTION_MUTANTS: Final = (
    Mutant(
        "E1",
        "the high watermark waits for the committed ISR, not for the proposed one",
        f"{_SERVER}/replica/state.py",
        "            for broker_id in self.maximal_isr.union(self._joining)\n",
        "            for broker_id in frozenset(self.isr).union(self._joining)\n",
        _EXPLORATION,
    ),
    Mutant(
        "E2",
        "a follower is cut at its high watermark, not where the epochs differ",
        f"{_SERVER}/fetcher/leader_fetcher.py",
        "            offset = followed.log.diverged_at(diverging.epoch, diverging.end_offset)\n",
        "            offset = followed.log.partition.high_watermark\n",
        _EXPLORATION,
    ),
    Mutant(
        "E3",
        "a replica outside of ISR and ELR is elected",
        _CHANGE,
        "(rules.allows_unclean(topic) or",
        "(True or",
        _EXPLORATION,
    ),
    Mutant(
        "E4",
        "a member of ISR or ELR that has lost its records stays one",
        _CHANGE,
        "        if recorded in broker.kept_epochs or self.is_single:\n",
        "        if True:\n",
        _EXPLORATION,
    ),
    Mutant(
        "E5",
        "a directory counts as whole after a power loss",
        f"{_SERVER}/cluster/registration.py",
        "    if stopped_cleanly or same_boot or last.flush_on_ack:\n",
        "    if True:\n",
        _EXPLORATION,
    ),
    Mutant(
        "E6",
        "a leader's late change of the ISR replaces a newer one",
        f"{_SERVER}/cluster/isr_changes.py",
        "        compare = [Written(key, change.partition_epoch), *_followers(change)]\n",
        "        compare = _followers(change)\n",
        _EXPLORATION,
    ),
    Mutant(
        "E7",
        "a deposed leader acknowledges when it leads again",
        f"{_SERVER}/partition/partition.py",
        "        self.is_leader = self.leads = False\n"
        "        self.commit_waiters.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)\n",
        "        self.is_leader = self.leads = False\n",
        _EXPLORATION,
    ),
    Mutant(
        "E8",
        "a late write of the controller replaces a newer record",
        _CHANGE,
        "    compare: list[Compare] = [Written(key, partition.partition_epoch)]\n",
        "    compare: list[Compare] = []\n",
        _EXPLORATION,
    ),
    Mutant(
        "E9",
        "a follower's fetch commits what the leader has not flushed",
        f"{_SERVER}/partition/partition.py",
        "        self._advance(log.recovery_point if waits_for_flush else log.log_end_offset)\n",
        "        self._advance(log.log_end_offset)\n",
        _EXPLORATION,
    ),
    Mutant(
        "E10",
        "an unclean election takes the last leader, although its disk is new",
        _CHANGE,
        "            candidates.may_be_empty(partition, b),\n",
        "",
        _DIRECTORIES,
    ),
    Mutant(
        "E11",
        "an unclean election prefers a replica that is being added",
        _CHANGE,
        "            b in partition.adding,\n",
        "",
        _DIRECTORIES,
    ),
    Mutant(
        "E12",
        "a replica that has fetched everything again counts as empty",
        f"{_SERVER}/cluster/replica_directories.py",
        "            known[broker_id] = broker.directory_id\n",
        "            known.setdefault(broker_id, broker.directory_id)\n",
        _DIRECTORIES,
    ),
)
