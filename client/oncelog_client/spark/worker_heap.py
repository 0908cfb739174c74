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

# How many full collections there had been when something last arrived, and whether that is over.
_collected: int | None = None
_is_settled = False


def settle() -> None:
    """At the second use of a reused worker, take what is there out of every later collection: all
    is imported by then, and what the first use has left was collected. Once only: what is taken out
    and becomes garbage later is never freed.

    A use has several arrivals, and ends with a full collection by Spark: the first arrival that
    finds another one since is in the second use.
    """
    global _collected, _is_settled
    if _is_settled or _REUSED not in os.environ:
        return
    before, _collected = _collected, gc.get_stats()[2]["collections"]
    if before not in (None, _collected):
        gc.freeze()
        _is_settled = True
