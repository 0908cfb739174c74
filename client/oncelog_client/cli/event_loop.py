"""asyncio for commands that end soon: without TLS, which takes 8 ms of the 60 ms of its import.

No client speaks TLS yet, so no command needs asyncio's TLS. A program that needs TLS imports `ssl`
before this module, which then changes nothing.
"""

from __future__ import annotations

import sys


def import_asyncio() -> None:
    """Import asyncio as in a Python without TLS, unless it or `ssl` is imported already."""
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    # The import system raises ImportError for a module that is None in sys.modules. asyncio handles
    # that as in a Python built without TLS. typeshed does not know this use of None.
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import asyncio  # noqa: F401 - imported for sys.modules
    finally:
        del sys.modules["ssl"]
