"""Imports asyncio without TLS, for commands that end soon. TLS takes 8 of the import's 60 ms.

A program that needs TLS imports `ssl` before this module. This module then changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def import_asyncio(words: Sequence[str]) -> None:
    """Import asyncio. If the command line `words` have no option with settings, asyncio is imported
    without `ssl`, unless one of the two is imported already."""
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    if any(map(_may_hold_settings, words)):
        import ssl  # noqa: F401 - asyncio uses it if it is imported
    else:
        # The import system raises ImportError for a module that is None in sys.modules. asyncio
        # handles that as in a Python built without TLS. typeshed does not know this use of None.
        sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import asyncio  # noqa: F401 - imported for sys.modules
    finally:
        if sys.modules["ssl"] is None:
            del sys.modules["ssl"]


def _may_hold_settings(word: str) -> bool:
    """Return True for an option with settings of a client, such as --command-config, its
    abbreviations, or --producer-property. The settings may ask for TLS."""
    option = word.partition("=")[0]
    return option.startswith(("--com", "-c")) or (
        option.startswith("--") and ("conf" in option or "prop" in option)
    )
