"""structlog set up once: for people on a terminal, JSON lines elsewhere. Events only, never one per
request."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import IO, Any

import msgspec
import structlog


class _MayBeLost:
    """A stream that may be full or gone: what it does not take is lost. An event is told in the
    middle of what is done; nothing of that may be left undone because nobody can be told."""

    def __init__(self, stream: IO[Any]) -> None:
        self._stream = stream

    def write(self, text: str | bytes) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def configure_logs(*, debug: bool = False) -> None:
    """Log to standard error; standard output belongs to the start line."""
    level = logging.DEBUG if debug else logging.INFO
    shared: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if sys.stderr.isatty():
        processors = [*shared, structlog.dev.ConsoleRenderer()]
        stream: Any = _MayBeLost(sys.stderr)
        factory: Any = structlog.PrintLoggerFactory(stream)
    else:
        encode = msgspec.json.Encoder(enc_hook=repr).encode
        processors = [
            *shared,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=lambda event, **_: encode(event)),
        ]
        stream = _MayBeLost(sys.stderr.buffer)
        factory = structlog.BytesLoggerFactory(stream)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )
