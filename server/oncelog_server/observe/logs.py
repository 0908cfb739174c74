"""Set up structlog: readable lines on a terminal, JSON lines elsewhere. Requests are not logged one
by one."""

from __future__ import annotations

import logging
import re
import sys
from contextlib import suppress
from typing import IO, Any, Final

import msgspec
import structlog

# Characters that a terminal executes instead of showing: control characters of ASCII and of ISO
# 6429 (C1), line and paragraph separators, and marks that reverse the direction of text
# (CVE-2021-42574).
_CONTROLS: Final = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"


# The only text of an event that may have several lines.
TRACEBACK: Final = "exception"


def escape_controls(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Escape control characters in all texts of an event, because clients choose ids and names, and
    logs are read on terminals."""
    return {
        name: "\n".join(map(_escaped, value.split("\n"))) if name == TRACEBACK else _escaped(value)
        for name, value in event.items()
    }


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        # The characters of `_CONTROLS` are not printable. Few texts need the pattern, and its
        # compilation would take 1 ms of each start.
        if value.isprintable():
            return value
        return re.sub(_CONTROLS, lambda found: _as_escape(found[0]), value)
    if isinstance(value, list | tuple):
        return [_escaped(part) for part in value]
    if isinstance(value, dict):
        return {_escaped(name): _escaped(part) for name, part in value.items()}
    return value


def _as_escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


class _MayBeLost:
    """A stream that drops output if it is full or closed. Events are logged in the middle of
    operations, and a failed write of an event must not interrupt them."""

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
    """Log to standard error. Standard output is only for the line that the broker prints when it
    has started."""
    level = logging.DEBUG if debug else logging.INFO
    shared: list[Any] = [
        structlog.processors.format_exc_info,
        escape_controls,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if sys.stderr.isatty():
        plain_traceback = structlog.dev.plain_traceback
        processors = [*shared, structlog.dev.ConsoleRenderer(exception_formatter=plain_traceback)]
        stream: Any = _MayBeLost(sys.stderr)
        factory: Any = structlog.PrintLoggerFactory(stream)
    else:
        encode = msgspec.json.Encoder(enc_hook=repr).encode
        processors = [
            *shared,
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
