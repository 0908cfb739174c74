"""Named mutants of self-fencing: a broker leads nothing once its registration may have ended."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SERVER: Final = "server/oncelog_server"
_FENCING: Final = ("tests/server/test_self_fencing.py",)
_PARTITION: Final = ("tests/server/partition/test_partition.py",)

SELF_FENCING_MUTANTS: Final = (
    Mutant(
        "SF1",
        "only a timer ends the leadership",
        f"{_SERVER}/self_fencing.py",
        "        self._check()\n        return self._requests",
        "        return self._requests",
        _FENCING,
    ),
    Mutant(
        "SF2",
        "a finished flush acknowledges without a registration",
        f"{_SERVER}/partition/group_flush.py",
        "        self.before_callbacks()\n",
        "",
        _FENCING,
    ),
    Mutant(
        "SF3",
        "a suspended leader moves its high watermark",
        f"{_SERVER}/partition/partition.py",
        "        if not self.is_leader:\n            return\n        log = self._log\n",
        "        log = self._log\n",
        _PARTITION,
    ),
    Mutant(
        "SF4",
        "a coordinator responds from memory while it is suspended",
        f"{_SERVER}/coordinator/runtime.py",
        "        if not loaded.partition.is_leader:\n",
        "        if False:\n",
        ("tests/server/coordinator/test_loading.py",),
    ),
    Mutant(
        "SF5",
        "a broker that has registered again leads by its old image",
        f"{_SERVER}/metadata/membership.py",
        "        await self._follower.reached(epoch)\n"
        "        self._attempt, self._unknown_since = None, None\n"
        "        self.authority.renew(attempt.sent_ms, attempt.lease.ttl_ms)\n",
        "        self.authority.renew(attempt.sent_ms, attempt.lease.ttl_ms)\n"
        "        await self._follower.reached(epoch)\n"
        "        self._attempt, self._unknown_since = None, None\n",
        ("tests/server/metadata/test_membership.py",),
    ),
    Mutant(
        "SF6",
        "the authority lasts as long as the lease, without a margin",
        f"{_SERVER}/cluster/authority.py",
        "int(ttl_ms * (1 - CLOCK_DRIFT)) - MARGIN_MS if",
        "ttl_ms if",
        _FENCING,
    ),
    Mutant(
        "SF7",
        "a leader that is elected while it is suspended serves",
        f"{_SERVER}/hosting/replica_manager.py",
        "                is_suspended=self._partitions.is_suspended,\n",
        "",
        ("tests/server/hosting/test_replica_manager.py",),
    ),
)
