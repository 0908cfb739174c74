"""Notices of each move of a high watermark and each change of a leader, in all brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from oncelog_server.partition.partition import Partition

# Gets the partition and the value before the change, None for the first value.
Noticed = Callable[[Partition, Any], None]


class _Watched:
    """Takes the place of a slot of Partition."""

    def __init__(self, slot: Any, noticed: Noticed) -> None:
        self._slot = slot
        self._noticed = noticed

    def __get__(self, partition: Partition | None, owner: type) -> Any:
        return self if partition is None else self._slot.__get__(partition)

    def __set__(self, partition: Partition, value: Any) -> None:
        try:
            before = self._slot.__get__(partition)
        except AttributeError:
            before = None
        self._slot.__set__(partition, value)
        if before is None or before != value:
            self._noticed(partition, before)


@contextmanager
def watched(high_watermark: Noticed, is_leader: Noticed) -> Iterator[None]:
    """Call these functions right after each change, before anything follows from the change."""
    slots = {name: vars(Partition)[name] for name in ("high_watermark", "is_leader")}
    Partition.high_watermark = _Watched(slots["high_watermark"], high_watermark)  # type: ignore
    Partition.is_leader = _Watched(slots["is_leader"], is_leader)  # type: ignore
    try:
        yield
    finally:
        for name, slot in slots.items():
            setattr(Partition, name, slot)
