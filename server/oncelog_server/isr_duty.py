"""A leader's checks of the ISR of its partitions, and the writes of the changes that it
proposes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.deferred import Deferred
from oncelog_server.partition.isr_updates import IsrUpdates
from oncelog_server.partition.partition import Partition
from oncelog_server.replica.isr_changes import IsrOutcome, IsrProposal
from oncelog_server.slices import Slices
from oncelog_server.timers import Timer, Timers

Settled: TypeAlias = Callable[[IsrOutcome], None]
WriteIsr: TypeAlias = Callable[[Sequence[IsrProposal]], Awaitable[list[IsrOutcome]]]


class IsrWriter:
    """Writes the proposals of one turn of the loop together."""

    def __init__(
        self,
        write: WriteIsr,
        spawn: Callable[[Coroutine[Any, Any, None]], Deferred[None]],
        timers: Timers,
    ) -> None:
        self._write = write
        self._spawn = spawn
        self._timers = timers
        self._waiting: list[tuple[IsrProposal, Settled]] = []

    def propose(self, proposal: IsrProposal, settled: Settled, /) -> None:
        if not self._waiting:
            self._timers.call_soon(self._begin)
        self._waiting.append((proposal, settled))

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._spawn(self._write_all(waiting))

    async def _write_all(self, waiting: list[tuple[IsrProposal, Settled]]) -> None:
        outcomes = [IsrOutcome.UNKNOWN] * len(waiting)
        try:
            outcomes = await self._write([proposal for proposal, _ in waiting])
        finally:
            for (_, settled), outcome in zip(waiting, outcomes, strict=True):
                settled(outcome)


class IsrDuty:
    """Checks the partitions of a leader at half of `replica.lag.time.max.ms`, as Kafka does, and
    when brokers come or go."""

    def __init__(
        self,
        partitions: Iterable[Partition],
        writer: IsrWriter,
        image: Callable[[], ClusterImage],
        timers: Timers,
        slices: Slices,
        *,
        monotonic_ms: Callable[[], int],
        max_lag_ms: int,
    ) -> None:
        self._image = image
        self._timers = timers
        self._slices = slices
        self._interval_ms = max(max_lag_ms // 2, 1)
        self._timer: Timer | None = None
        self._is_checking = False
        self.updates = IsrUpdates(
            partitions,
            writer,
            epochs=self._epochs,
            monotonic_ms=monotonic_ms,
            max_lag_ms=max_lag_ms,
        )

    def start(self) -> None:
        self._timer = self._timers.call_later(self._interval_ms, self._due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def follow(self, _old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> None:
        """Check at once after a change of the brokers: a broker that has stopped no longer holds
        the high watermark back."""
        if delta.brokers_changed:
            self._check()

    def _epochs(self, partition: Partition) -> Mapping[int, int]:
        """Return the epochs of the brokers with replicas that may join the ISR of the partition:
        live ones that do not drain, with a replica that has not failed (`Candidates.serves`)."""
        image = self._image()
        topic_id, index = partition.topic_id, partition.topic_partition.partition
        return {
            id: broker.epoch
            for id, broker in image.brokers.items()
            if id not in image.draining and (id, topic_id, index) not in image.failed
        }

    def _due(self) -> None:
        self.start()
        self._check()

    def _check(self) -> None:
        if self._is_checking:
            return
        self._is_checking = True
        checked = self._slices.run(self.updates.check())
        if isinstance(checked, Deferred):
            checked.on_complete(lambda _: self._checked())
            checked.on_abandon(self._checked)
        else:
            self._checked()

    def _checked(self) -> None:
        self._is_checking = False
