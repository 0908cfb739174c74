"""Named mutants of reassignment: when it completes, what a cancellation may do, what is deleted."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_CLUSTER: Final = "server/oncelog_server/cluster"
_RULES: Final = ("tests/server/cluster/test_reassignment.py",)
# For mutants with `_MODEL`: the property tests find them only by luck, so the tests of the rules
# run as well.
_MODEL: Final = (*_RULES, "tests/server/cluster/test_reassignment_properties.py")

REASSIGNMENT_MUTANTS: Final = (
    Mutant(
        "G1",
        "a reassignment completes before the added replicas are in sync",
        f"{_CLUSTER}/reassignment.py",
        "        if not all(replica in isr for replica in required):\n            return None\n",
        "",
        _MODEL,
    ),
    Mutant(
        "G2",
        "fewer replicas do not wait for all of the target",
        f"{_CLUSTER}/reassignment.py",
        "target if len(self.adding) < len(self.removing) else self.adding\n",
        "self.adding\n",
        _RULES,
    ),
    Mutant(
        "G3",
        "a repeated request forgets the replicas that are being added",
        f"{_CLUSTER}/reassignment.py",
        "        original = _without(self.replicas, self.adding)\n",
        "        original = self.replicas\n",
        _MODEL,
    ),
    Mutant(
        "G4",
        "a cancellation trusts a replica that may have lost records",
        f"{_CLUSTER}/reassignment_changes.py",
        "    isr = live_members(candidates, partition) or staying_members(candidates, partition)\n",
        "    isr = dict.fromkeys(partition.isr)\n",
        _RULES,
    ),
    Mutant(
        "G9",
        "a cancellation removes replicas that the min ISR needs",
        f"{_CLUSTER}/reassignment_changes.py",
        "    if len(staying) < min(needed, len(isr)):\n",
        "    if len(staying) < min(needed, len(isr)) and False:\n",
        _RULES,
    ),
    Mutant(
        "G5",
        "the leader epoch stays when a replica is removed",
        f"{_CLUSTER}/partition_change.py",
        "    kept_epoch = next_epoch if loses_replica else partition.leader_epoch\n",
        "    kept_epoch = partition.leader_epoch\n",
        _RULES,
    ),
    Mutant(
        "G6",
        "an unclean election takes an empty replica that is being added",
        f"{_CLUSTER}/replica_directories.py",
        "        return broker.id in partition.adding and",
        "        return False and",
        ("tests/server/cluster/test_replica_directories.py",),
    ),
    Mutant(
        "G7",
        "a partition that has moved stays on its broker",
        "server/oncelog_server/hosting/replica_manager.py",
        "            self._leave(topic, name)\n        elif",
        "            pass\n        elif",
        ("tests/server/hosting/test_moved_partitions.py",),
    ),
    Mutant(
        "G8",
        "a replica that is being added makes the partition under-replicated",
        "server/oncelog_server/replica/state.py",
        "len(self.assignment) - len(self.adding)\n",
        "len(self.assignment)\n",
        ("tests/server/partition/test_views.py",),
    ),
)
