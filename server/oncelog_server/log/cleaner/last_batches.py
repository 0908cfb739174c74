"""The last batches of the live producers of a log, in the job of a pass."""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

NO_OFFSET: Final = -1


class LastOfProducer(NamedTuple):
    """The batch that must be kept for a live producer: the batch with last offset `data_offset`. If
    `data_offset` is NO_OFFSET, the marker with `epoch` must be kept."""

    data_offset: int
    epoch: int


class LastBatches:
    """LastOfProducer by producer id. The broker adds producers, and only the cleaner looks them up.

    The numbers are in arrays. The broker pickles the job in one step, and an array is pickled as
    one copy of its bytes: 100,000 objects would take a third of a second of the event loop.
    """

    __slots__ = ("_by_id", "_epochs", "_ids", "_offsets")

    def __init__(self) -> None:
        self._ids = array("q")
        self._offsets = array("q")
        self._epochs = array("h")
        # Computed at the first look-up.
        self._by_id: dict[int, LastOfProducer] | None = None

    def add(self, producer_id: int, last: LastOfProducer) -> None:
        self._ids.append(producer_id)
        self._offsets.append(last.data_offset)
        self._epochs.append(last.epoch)
        self._by_id = None

    def get(self, producer_id: int) -> LastOfProducer | None:
        if self._by_id is None:
            rows = map(LastOfProducer, self._offsets, self._epochs)
            self._by_id = dict(zip(self._ids, rows, strict=True))
        return self._by_id.get(producer_id)
