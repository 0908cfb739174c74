"""The wait of a start for a metadata store outside of the data directory: etcd, or the store of
another broker of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import structlog

from oncelog_server.cluster.store import FinalFailure
from oncelog_server.refusal import StoreFailed
from oncelog_server.settings.model import Settings

T = TypeVar("T")

# Pause before the next attempt to reach the store.
PAUSE_S: Final = 0.5
# A call of a store ends within 5 s by itself. The first attempt of a step has this time even if the
# deadline is nearer: the store may have responded to all steps before.
CALL_S: Final = 6.0

log = structlog.get_logger("oncelog.broker")


class StoreSilent(OSError):
    """The store did not serve a step of the start before the deadline. The message is for users."""


class StoreWait:
    """Repeats the steps of one start until the store serves them. The deadline of all steps is
    `initial.broker.registration.timeout.ms` after the start, as Kafka waits for its controllers. It
    moves by the time of `uncounted`.

    The loop's time at the deadline is `ends_s`. If the metadata is in the data directory, each step
    has one attempt: no other process can bring this store back.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timeout_ms = settings.initial_broker_registration_timeout_ms
        self.ends_s = asyncio.get_running_loop().time() + self._timeout_ms / 1000

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Move the deadline by the time of this block, which needs no store: a recovery of logs may
        take minutes."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        yield
        self.ends_s += loop.time() - begun_s

    async def step(
        self,
        awaited: str,
        attempt: Callable[[], Awaitable[T]],
        *,
        pause_s: float = PAUSE_S,
        is_expected: bool = False,
    ) -> T:
        """Return the result of `attempt`, which must be able to run again after a failure, also if
        an earlier attempt has taken effect. `awaited` names what the step needs from the store. A
        wait that `is_expected` is not logged.

        Raises FinalFailure at once. Raises StoreSilent at the deadline, in place of OSError and
        StoreFailed. If the metadata is in the data directory, raises the errors of `attempt`.
        """
        if not self._settings.has_metadata_elsewhere:
            return await attempt()
        loop = asyncio.get_running_loop()
        failure: Exception | None = None
        while True:
            least_s = 0.0 if failure is not None else loop.time() + CALL_S
            try:
                async with asyncio.timeout_at(max(self.ends_s, least_s)) as limit:
                    result = await attempt()
            except (OSError, StoreFailed) as error:
                final = error if isinstance(error, FinalFailure) else error.__cause__
                if isinstance(final, FinalFailure):
                    raise final from None
                if failure is None and not is_expected:
                    log.warning(
                        "the broker waits for its metadata", awaited=awaited, reason=_reason(error)
                    )
                if failure is None or not limit.expired():
                    failure = error
            else:
                if failure is not None and not is_expected:
                    log.info("the metadata store responds again", awaited=awaited)
                return result
            await asyncio.sleep(min(pause_s, max(self.ends_s - loop.time(), 0.0)))
            if loop.time() >= self.ends_s:
                raise StoreSilent(self._message(awaited, failure)) from failure

    def _message(self, awaited: str, failure: Exception) -> str:
        settings = self._settings
        if settings.oncelog_etcd_endpoints:
            store = f"etcd at {', '.join(settings.oncelog_etcd_endpoints)}"
            hint = "Start etcd, or correct oncelog.etcd.endpoints"
        else:
            store = f"the first broker of this machine, in {settings.first_broker},"
            hint = "The log of the first broker says why"
        return (
            f"{store} has not served this start within {self._timeout_ms} ms "
            f"(initial.broker.registration.timeout.ms): the broker awaited {awaited}. Last "
            f"failure: {_reason(failure)}. {hint}"
        )


def _reason(failure: Exception) -> str:
    text = failure.message if isinstance(failure, StoreFailed) else str(failure)
    return text or "no change of the metadata arrives"
