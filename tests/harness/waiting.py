"""Waits for a condition, with a deadline. Tests use this instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_S = 60.0


def wait_until(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return once `condition()` is true. Fail the test after `deadline_s`."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.02)
