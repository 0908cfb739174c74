"""Named mutants of the start of a broker whenever its metadata store does not respond."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_METADATA: Final = "server/oncelog_server/metadata"
_WAIT: Final = f"{_METADATA}/store_wait.py"
_MEMBERSHIP: Final = f"{_METADATA}/membership.py"
_STEPS: Final = ("tests/server/metadata/test_store_wait.py",)
_REGISTRATION: Final = (
    "tests/server/metadata/test_membership.py",
    "tests/simulation/cluster/test_silent_starts.py",
)

STARTING_MUTANTS: Final = (
    Mutant(
        "ST1",
        "each step of a start has a deadline of its own",
        _WAIT,
        "        failure: Exception | None = None\n",
        "        self.ends_s = loop.time() + self._timeout_ms / 1000\n"
        "        failure: Exception | None = None\n",
        _STEPS,
    ),
    Mutant(
        "ST2",
        "a start repeats what etcd has refused for good",
        _WAIT,
        "                if isinstance(final, FinalFailure):\n",
        "                if False:\n",
        _STEPS,
    ),
    Mutant(
        "ST3",
        "a step of a start without changes of the metadata never ends",
        _WAIT,
        "asyncio.timeout_at(max(self.ends_s, least_s))",
        "asyncio.timeout_at(None)",
        _STEPS,
    ),
    Mutant(
        "ST4",
        "a broker takes its own registration for that of an earlier process",
        _MEMBERSHIP,
        "            if result.succeeded or _is_of(taken, new, attempt.lease):\n",
        "            if result.succeeded:\n",
        _REGISTRATION,
    ),
    Mutant(
        "ST5",
        "each attempt to register has a lease of its own",
        _MEMBERSHIP,
        "self._attempt = self._attempt or await self._granted()",
        "self._attempt = await self._granted()",
        _REGISTRATION,
    ),
    Mutant(
        "ST6",
        "a registration with an unknown outcome and an ended lease counts as lost records",
        _MEMBERSHIP,
        "        if last is not None and self._has_made(last, new.directory_id):\n",
        "        if False:\n",
        _REGISTRATION,
    ),
    Mutant(
        "ST7",
        "a directory has the mark of a clean stop although the broker may be registered",
        "server/oncelog_server/broker.py",
        "            if not may_be_registered:\n",
        "            if True:\n",
        ("tests/server/test_cluster_start.py",),
    ),
)
