"""Imports asyncio without TLS, for commands that end soon. TLS takes 8 of the import's 60 ms.

No client speaks TLS yet, so no command needs asyncio's TLS. A program that needs TLS imports `ssl`
before this module. This module then changes nothing.
"""

from __future__ import annotations

import sys


def import_asyncio() -> None:
    """Import asyncio as in a Python without TLS, unless asyncio or `ssl` is imported already."""
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    # The import system raises ImportError for a module that is None in sys.modules. asyncio handles
    # that as in a Python built without TLS. typeshed does not know this use of None.
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import asyncio  # noqa: F401 - imported for sys.modules
    finally:
        del sys.modules["ssl"]
