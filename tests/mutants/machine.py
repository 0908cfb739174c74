"""Named mutants of several brokers on one machine, and of a single broker that becomes the first of
a cluster."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SHARED: Final = "server/oncelog_server/shared_store"
_STORE: Final = ("tests/server/shared_store/test_shared_store.py",)

MACHINE_MUTANTS: Final = (
    Mutant(
        "BM1",
        "a lease without keepalives never ends",
        f"{_SHARED}/timed_leases.py",
        "        self._forget(lease_id)\n        self._end_later",
        "        return\n        self._end_later",
        _STORE,
    ),
    Mutant(
        "BM2",
        "a transaction with a lost response counts as not carried out",
        f"{_SHARED}/client.py",
        "            raise UnknownOutcome(str(error)) from error\n",
        "            raise OSError(str(error)) from error\n",
        _STORE,
    ),
    Mutant(
        "BM3",
        "a watch that has lost its connection skips what it missed",
        f"{_SHARED}/client.py",
        "                    following = changes.revision + 1\n",
        "                    following = changes.revision + 2\n",
        _STORE,
    ),
    Mutant(
        "BM4",
        "two brokers of a machine share a port",
        "server/oncelog_server/settings/machine.py",
        "        step += 1\n    return step\n",
        "        break\n    return step\n",
        ("tests/server/settings/test_machine.py",),
    ),
    Mutant(
        "BM5",
        "a moved registration forgets its broker epoch",
        "server/oncelog_server/migration/planning/etcd_records.py",
        "            epoch = registration.broker_epoch or entry.mod_revision\n",
        "            epoch = registration.broker_epoch\n",
        ("tests/server/migration/test_to_etcd.py",),
    ),
)
