"""What a Python worker of Spark keeps from one task to the next.

After each use a worker collects garbage, and looks for it among some fifty thousand objects of
imported modules that never are any: 8 to 17 ms of a processor in each of the four processes that a
micro-batch goes through, while the next of them waits for that processor.
"""

from __future__ import annotations

import gc
import os
from typing import Final

# In the environment of workers that are used again.
_REUSED: Final = "SPARK_REUSE_WORKER"
_SETTLED_AT_USE: Final = 2

_uses = 0


def settle() -> None:
    """At the second use of a reused worker, take what is there out of every later collection: all
    is imported by then, and what the first use has left was collected. Once only: what is taken out
    and becomes garbage later is never freed."""
    global _uses
    _uses += 1
    if _uses == _SETTLED_AT_USE and _REUSED in os.environ:
        gc.freeze()
