"""Named mutants of the quotas: the security brief's list, section 6.5, and the arithmetic."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_QUOTAS: Final = "server/oncelog_server/quotas"
_ORACLE: Final = ("tests/conformance/quotas/test_throttle_times.py",)
_GATE: Final = ("tests/server/quotas/test_gate.py",)
_LIMITS: Final = ("tests/server/quotas/test_limits.py", *_ORACLE)
_CONNECTION: Final = "server/oncelog_server/network/connection.py"

QUOTA_MUTANTS: Final = (
    Mutant(
        "Q1",
        "the bytes of a throttled Fetch count",
        f"{_QUOTAS}/gate.py",
        "self.fetch.record(user, client_id, -response_bytes, now_ms)\n",
        "self.fetch.record(user, client_id, 0, now_ms)\n",
        _GATE,
    ),
    Mutant(
        "Q2",
        "a strict request beyond its quota is not refused",
        f"{_QUOTAS}/mutations.py",
        "            return not self._is_strict\n",
        "            return True\n",
        _ORACLE,
    ),
    Mutant(
        "Q3",
        "an expired sample still counts",
        f"{_QUOTAS}/rates.py",
        "            if now_ms - last_ms >= windows.expiry_ms:\n",
        "            if now_ms - last_ms > windows.expiry_ms:\n",
        _ORACLE,
    ),
    Mutant(
        "Q4",
        "the quota of a user overrides that of a user and a client id",
        f"{_QUOTAS}/limits.py",
        "    _Level(True, True),\n    _Level(True, DEFAULT),\n    _Level(True, ABSENT),\n",
        "    _Level(True, ABSENT),\n    _Level(True, True),\n    _Level(True, DEFAULT),\n",
        _LIMITS,
    ),
    Mutant(
        "Q5",
        "a throttled client is served before its time",
        _CONNECTION,
        "                if self._write_paused:\n                    break\n                left ",
        "                left ",
        ("tests/server/network/test_connection.py",),
    ),
)
