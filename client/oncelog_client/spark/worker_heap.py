"""The heap that a Python worker of Spark keeps from one task to the next.

After each use a worker collects garbage. The collector then examines some fifty thousand objects of
imported modules, although none is garbage. This takes 8 to 17 ms of a processor in each of the four
processes of a micro-batch, one after the other.
"""

from __future__ import annotations

import gc
import os
from typing import Final

# Spark sets this variable in the environment of workers that it reuses.
_REUSED: Final = "SPARK_REUSE_WORKER"

# The number of full collections at the last call of `settle`, and whether the heap is frozen.
_collected: int | None = None
_is_settled = False


def settle() -> None:
    """Freeze the heap at the second use of a reused worker, so that no later collection examines
    it. By then all modules are imported, and the garbage of the first use is collected. The freeze
    happens once, because frozen objects are never freed. A use calls this function several times
    and ends with a full collection by Spark. So the first call after a full collection is in the
    second use.
    """
    global _collected, _is_settled
    if _is_settled or _REUSED not in os.environ:
        return
    before, _collected = _collected, gc.get_stats()[2]["collections"]
    if before not in (None, _collected):
        gc.freeze()
        _is_settled = True
