"""The job in the README, run as the README says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 600.0


@pytest.mark.parametrize("client", ["oncelog", "confluent"])
def test_every_purchase_is_billed_once_over_kills(client: str) -> None:
    """The exit status is 0 only if nothing is duplicated, lost or wrong."""
    ended = subprocess.run(
        [sys.executable, "-m", "examples.purchases", "--client", client],
        cwd=ROOT,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    said = (ended.stdout + ended.stderr).decode(errors="replace")
    assert ended.returncode == 0, said[-3_000:]
    assert "duplicates" in said
