"""A text with the first of many names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# Maximum number of names in a text.
NAMED: Final = 5


def some(names: Sequence[str]) -> str | None:
    """Return a text with the first NAMED names and the number of further names. Return None for an
    empty list."""
    if not names:
        return None
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
