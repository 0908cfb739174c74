"""The number of examples for a property: all of them, or a fifth in the quick lane."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

IS_QUICK: Final = os.environ.get("ONCELOG_EXAMPLES") == "quick"

# For a property without its own number. Hypothesis' default is 100.
_MOST: Final = 100
_SHARE: Final = 5
_FEWEST: Final = 10


def examples(count: int) -> int:
    """Return how many of `count` examples to try in this lane."""
    return min(count, max(count // _SHARE, _FEWEST)) if IS_QUICK else count


def load_profile() -> None:
    """Load the settings of all properties.

    A slow example may be caused by a busy computer, so it is not a failure.
    """
    settings.register_profile(
        "steady",
        deadline=None,
        max_examples=examples(_MOST),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("steady")
