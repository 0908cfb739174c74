"""The broker's log events in a world, and the unexpected exceptions among them."""

from __future__ import annotations

import traceback
from collections import Counter, deque
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn

import structlog

from tests.simulation.process import CURRENT, Killed


class LogCapture:
    """A log handler. `defects`: unexpected exceptions, as text."""

    def __init__(self, now_us: Any) -> None:
        self._now_us = now_us
        self.events: deque[tuple[int, str, dict[str, Any]]] = deque(maxlen=400)
        self.counts: Counter[str] = Counter()
        self.defects: list[str] = []

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> NoReturn:
        process = CURRENT.get()
        if process is None or not process.is_dead:
            name = str(event.get("event"))
            self.counts[name] += 1
            self.events.append((self._now_us(), method, dict(event)))
            if event.get("exc_info"):
                self._note(name, event["exc_info"])
        raise structlog.DropEvent

    def _note(self, name: str, info: Any) -> None:
        if isinstance(info, BaseException):
            if not isinstance(info, Killed):
                self.defects.append(f"{name}\n{''.join(traceback.format_exception(info))}")
        else:
            self.defects.append(f"{name}\n{traceback.format_exc()}")

    def lines(self, last: int = 40) -> Iterator[str]:
        for now_us, method, event in list(self.events)[-last:]:
            rest = {name: value for name, value in event.items() if name != "event"}
            yield f"{now_us / 1e6:9.4f} {method:7} {event.get('event')} {rest}"


@contextmanager
def captured(capture: LogCapture) -> Iterator[LogCapture]:
    before = structlog.get_config()
    structlog.configure(
        processors=[capture],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        cache_logger_on_first_use=False,
    )
    try:
        yield capture
    finally:
        structlog.configure(**before)
