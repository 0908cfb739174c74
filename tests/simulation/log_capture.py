"""The log events of a world, of its brokers and clients, and the unexpected exceptions of the
brokers among them."""

from __future__ import annotations

import logging
import traceback
from collections import Counter, deque
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn

import structlog

from tests.simulation.process import CURRENT, Killed


class LogCapture:
    """A log handler. `events`: those of the brokers. `client_events`: those of the clients.
    `defects`: unexpected exceptions, as text."""

    def __init__(self, now_us: Any) -> None:
        self._now_us = now_us
        self.events: deque[tuple[int, str, dict[str, Any]]] = deque(maxlen=400)
        self.client_events: deque[tuple[int, str, dict[str, Any]]] = deque(maxlen=400)
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

    def add_record(self, record: logging.LogRecord) -> None:
        """Add a log record of a client."""
        method = record.levelname.lower()
        self.client_events.append((self._now_us(), method, {"event": record.getMessage()}))

    def lines(self, last: int = 40) -> Iterator[str]:
        events = sorted([*self.events, *self.client_events], key=lambda event: event[0])
        for now_us, method, event in events[-last:]:
            rest = {name: value for name, value in event.items() if name != "event"}
            yield f"{now_us / 1e6:9.4f} {method:7} {event.get('event')} {rest}"


class _ClientRecords(logging.Handler):
    """Takes the records of the clients. Without any handler, logging prints them: hundreds of lines
    a second of a run."""

    def __init__(self, capture: LogCapture) -> None:
        super().__init__()
        self._capture = capture

    def emit(self, record: logging.LogRecord) -> None:
        self._capture.add_record(record)


@contextmanager
def captured(capture: LogCapture) -> Iterator[LogCapture]:
    before = structlog.get_config()
    clients, handler = logging.getLogger("oncelog_client"), _ClientRecords(capture)
    clients.addHandler(handler)
    structlog.configure(
        processors=[capture],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        cache_logger_on_first_use=False,
    )
    try:
        yield capture
    finally:
        clients.removeHandler(handler)
        structlog.configure(**before)
