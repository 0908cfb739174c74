"""How many examples a property is tried with: all of them, or in the quick lane a fifth."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

IS_QUICK: Final = os.environ.get("ONCELOG_EXAMPLES") == "quick"

# Of a property that names no number of its own: Hypothesis' default is 100.
_MOST: Final = 100
_SHARE: Final = 5
_FEWEST: Final = 10


def examples(count: int) -> int:
    """Return how many of `count` examples to try in this lane."""
    return min(count, max(count // _SHARE, _FEWEST)) if IS_QUICK else count


def load_profile() -> None:
    """Set what holds for every property.

    A slow example says something about the machine, which is shared, not about the code.
    """
    settings.register_profile(
        "steady",
        deadline=None,
        max_examples=examples(_MOST),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("steady")
