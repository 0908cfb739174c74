"""The number of examples that hypothesis tries for a property, and of drawn inputs that a test
compares with Kafka's classes.

If ONCELOG_EXAMPLES is "quick", a property has a fifth of the examples in the test. If it is "all",
a test compares all drawn inputs, otherwise a tenth of them. The test of the Spark sink's model then
also searches more models, the rates of throttles are measured for a minute, and the crash matrix of
a cluster has all its cells.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

IS_QUICK: Final = os.environ.get("ONCELOG_EXAMPLES") == "quick"
COMPARES_ALL: Final = os.environ.get("ONCELOG_EXAMPLES") == "all"

# The number for a property that sets no number. It is also the default of hypothesis.
_MOST: Final = 100
_SHARE: Final = 5
_FEWEST: Final = 10
_SHARE_OF_DRAWN: Final = 10


def examples(count: int) -> int:
    """Return how many of `count` examples to try: all, or fewer in a quick run."""
    return min(count, max(count // _SHARE, _FEWEST)) if IS_QUICK else count


def drawn(count: int) -> int:
    """Return how many of `count` drawn inputs to compare with Kafka's classes: all in `make
    nightly`, a tenth otherwise."""
    return count if COMPARES_ALL else count // _SHARE_OF_DRAWN


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
