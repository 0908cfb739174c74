"""asyncio for commands that end soon: without TLS, which takes 8 ms of the 60 ms of its import.

No client speaks TLS yet, so that no command that connects needs asyncio's TLS. Where TLS is asked
for, `ssl` must be imported before this module: it leaves what is there as it is.
"""

from __future__ import annotations

import sys


def import_asyncio() -> None:
    """Import asyncio as in a Python that was built without TLS, unless it or `ssl` is there."""
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    # An import of a name that stands for None fails, as asyncio expects without TLS.
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import asyncio  # noqa: F401
    finally:
        del sys.modules["ssl"]
