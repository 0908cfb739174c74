"""Work that the disk refused, usually because the disk is full. The work is retried until it
succeeds, so that no restart is needed. A log event reports the refusal, and another one the
success.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import structlog

from oncelog_server.storage.files import StorageError
from oncelog_server.timers import Timer, Timers

log = structlog.get_logger("oncelog.storage")

RETRY_MS: Final = 1_000
# Time in ms for retries in one turn of the loop.
TURN_MS: Final = 10
# After this many refusals in a row the disk counts as full, and the rest waits for the next round.
REFUSALS_OF_A_ROUND: Final = 20


class _Retry(msgspec.Struct):
    again: Callable[[], None]
    group: str


class _Group(msgspec.Struct):
    """Refused work that shares a pair of log events."""

    labels: dict[str, str]
    path: str
    since_ms: int
    left: int = 0


class RefusedWork:
    """The refused work of a broker. `add` schedules retries, `discard` ends them."""

    def __init__(self, timers: Timers, monotonic_ms: Callable[[], int]) -> None:
        self._timers = timers
        self._monotonic_ms = monotonic_ms
        self._work: dict[str, _Retry] = {}
        self._groups: dict[str, _Group] = {}
        self._timer: Timer | None = None
        self._stopped = False

    def __contains__(self, name: str) -> bool:
        return name in self._work

    def __len__(self) -> int:
        return len(self._work)

    def left(self, group: str) -> int:
        """Return how many pieces of work of a group are pending."""
        known = self._groups.get(group)
        return 0 if known is None else known.left

    def add(
        self,
        name: str,
        error: StorageError,
        again: Callable[[], None],
        *,
        group: str = "",
        **labels: str,
    ) -> None:
        """Call `again` every second until it does not raise StorageError.

        This work replaces pending work of the same name. The first refusal in each `group`, and the
        completion of its last work, are logged. By default `name` alone is the group.
        """
        if self._stopped:
            return
        group = group or name
        self._leave(name)
        known = self._groups.get(group)
        if known is None:
            known = _Group(labels, error.path, self._monotonic_ms())
            log.error(
                "disk refused",
                **labels,
                file=error.path,
                operation=error.operation,
                needed_bytes=error.needed_bytes,
                reason=error.reason,
            )
        known.left += 1
        self._groups[group] = known
        self._work[name] = _Retry(again, group)
        if self._timer is None:
            self._timer = self._timers.call_later(RETRY_MS, self._try_all)

    def retry(self, name: str) -> None:
        """Retry the work of that name now. Do nothing if it is not pending."""
        if name in self._work:
            self._try(name)

    def complete(self, name: str) -> None:
        """Do the work of that name now. Do nothing if it is not pending.

        Raises StorageError if the disk refuses the work again. The work then stays pending.
        """
        work = self._work.get(name)
        if work is None:
            return
        try:
            work.again()
        except StorageError:
            raise
        except Exception:
            log.exception("refused work failed", name=name)
        known = self._leave(name)
        if not known.left and self._groups.pop(work.group, None) is not None:
            log.info(
                "disk takes it again",
                **known.labels,
                file=known.path,
                after_ms=self._monotonic_ms() - known.since_ms,
            )

    def discard(self, name: str) -> None:
        """Drop the work of that name without a log event."""
        if name in self._work:
            group = self._work[name].group
            if not self._leave(name).left:
                self._groups.pop(group, None)

    def _leave(self, name: str) -> _Group:
        """Remove the work from its group. Return the group, a new one if the work is unknown."""
        work = self._work.pop(name, None)
        if work is None:
            return _Group({}, "", 0)
        known = self._groups[work.group]
        known.left -= 1
        return known

    def stop(self) -> None:
        self._stopped = True
        self._work.clear()
        self._groups.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _try_all(self) -> None:
        self._try_some(list(self._work), 0)

    def _try_some(self, names: list[str], refusals: int) -> None:
        """Retry the work of `names`, as much as one turn of the loop allows.

        The rest is retried in the next turn.
        """
        until_ms = self._monotonic_ms() + TURN_MS
        for index, name in enumerate(names):
            if refusals == REFUSALS_OF_A_ROUND:
                break
            if name not in self._work:
                continue
            if self._monotonic_ms() > until_ms:
                self._timers.call_soon(partial(self._try_some, names[index:], refusals))
                return
            refusals = 0 if self._try(name) else refusals + 1
        self._timer = None
        if self._work and not self._stopped:
            self._timer = self._timers.call_later(RETRY_MS, self._try_all)

    def _try(self, name: str) -> bool:
        """Retry the work. Return True if it is done, or failed by a defect and is not retried."""
        try:
            self.complete(name)
        except StorageError:
            self._work[name] = self._work.pop(name)  # other work comes first in the next round
            return False
        return True
