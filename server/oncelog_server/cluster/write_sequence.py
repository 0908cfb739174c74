"""Changes that need several transactions of the store, in their order.

A later transaction may depend on a key that the first one has written. It cannot name the revision
of this key, because the revision is known only after the first transaction.
"""

from __future__ import annotations

from typing import Final

from oncelog_server.cluster.store import Compare, Write, Written

FIRST_WRITE: Final = -1
"""Stands in a condition for the revision of the sequence's first transaction."""


def bound(write: Write, first_revision: int) -> Write:
    """Return a later transaction of a sequence with the revision of the first one."""
    compare: list[Compare] = [
        Written(condition.key, first_revision)
        if isinstance(condition, Written) and condition.mod_revision == FIRST_WRITE
        else condition
        for condition in write.compare
    ]
    return Write(tuple(compare), write.operations)
