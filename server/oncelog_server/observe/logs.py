"""structlog set up once: for people on a terminal, JSON lines elsewhere. Events only, never one per
request."""

from __future__ import annotations

import logging
import sys
from typing import Any

import msgspec
import structlog


def configure_logs(*, debug: bool = False) -> None:
    """Log to standard error; standard output belongs to the start line."""
    level = logging.DEBUG if debug else logging.INFO
    shared: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if sys.stderr.isatty():
        processors = [*shared, structlog.dev.ConsoleRenderer()]
        factory: Any = structlog.PrintLoggerFactory(sys.stderr)
    else:
        encode = msgspec.json.Encoder(enc_hook=repr).encode
        processors = [
            *shared,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=lambda event, **_: encode(event)),
        ]
        factory = structlog.BytesLoggerFactory(sys.stderr.buffer)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )
