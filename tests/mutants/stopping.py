"""Named mutants of the controlled stop of a broker, and of elections on request."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_CLUSTER: Final = "server/oncelog_server/cluster"
_STOP: Final = ("tests/server/metadata/test_controlled_shutdown.py",)
_CONTROLLER: Final = ("tests/server/cluster/test_controller.py",)
_ELECTIONS: Final = (
    "tests/server/cluster/test_requested_elections.py",
    "tests/server/metadata/test_elections.py",
)

STOPPING_MUTANTS: Final = (
    Mutant(
        "DS1",
        "a broker that drains joins an ISR",
        f"{_CLUSTER}/isr_changes.py",
        "        conditions.append(Created(records.draining_key(broker_id), 0))\n",
        "",
        ("tests/server/cluster/test_isr_changes.py",),
    ),
    Mutant(
        "DS2",
        "a draining leader without a successor is deposed",
        f"{_CLUSTER}/partition_change.py",
        "    return staying if leader in staying and staying[leader] == recorded[leader] else {}\n",
        "    return {}\n",
        _CONTROLLER,
    ),
    Mutant(
        "DS3",
        "a stop waits for partitions that no other broker can lead",
        f"{_CLUSTER}/draining.py",
        "    return any(map(candidates.serves, partition.replicas))\n",
        "    return True\n",
        _STOP,
    ),
    Mutant(
        "DS4",
        "the key of a broker that drains outlives its registration",
        f"{_CLUSTER}/draining.py",
        "        (Put(records.draining_key(broker_id), record, lease_id),),\n",
        "        (Put(records.draining_key(broker_id), record),),\n",
        _STOP,
    ),
    Mutant(
        "DS5",
        "a new leader does not end the parked fetches of followers",
        "server/oncelog_server/replication.py",
        "            self.follower_waits.shorten()\n",
        "            pass\n",
        ("tests/server/replication/test_controlled_stop.py",),
    ),
    Mutant(
        "DS6",
        "an operator's unclean election needs the topic's setting",
        f"{_CLUSTER}/partition_change.py",
        "        if self.is_forced:\n            return True\n",
        "",
        _ELECTIONS,
    ),
    Mutant(
        "DS7",
        "an election that an earlier attempt has made is reported as not needed",
        "server/oncelog_server/metadata/elections.py",
        "    if outcome is not None and outcome.code is ErrorCode.ELECTION_NOT_NEEDED:\n",
        "    if False:\n",
        _ELECTIONS,
    ),
    Mutant(
        "DS8",
        "a broker that has registered meanwhile is unregistered",
        f"{_CLUSTER}/registration.py",
        "            (Written(key, last.revision), Created(records.broker_key(broker_id), 0)),\n",
        "            (),\n",
        ("tests/server/cluster/test_registration.py",),
    ),
)
