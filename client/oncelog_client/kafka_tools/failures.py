"""The failures of a tool: a Java exception, or some lines and an exit code.

Kafka's tools print the class name and the message of an exception, and then its stack trace. These
tools print the same without the trace.
"""

from __future__ import annotations

import sys
import time
from functools import cache
from importlib.resources import files
from typing import Final

from oncelog_client.errors import KafkaError
from oncelog_client.io.clock import wall_ms
from oncelog_protocol.errors import ErrorCode

ERRORS_PACKAGE: Final = "org.apache.kafka.common.errors"
TIMEOUT: Final = f"{ERRORS_PACKAGE}.TimeoutException"
ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"
_FIELDS: Final = 3


class JavaError(Exception):
    """An exception as Kafka's tools print it. `java_class` is the full name of its class."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class
        self.message = message

    def __str__(self) -> str:
        """Return the text of Java's Throwable.toString."""
        return f"{self.java_class}: {self.message}"


class SettingsError(JavaError):
    """An error in the address or in the settings of a client, before it connects."""


class Ended(Exception):
    """The tool has printed its reason and ends with `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def java_error(code: int, message: str | None = None) -> JavaError:
    """Return the exception of an error code. Without a message it has the default message of
    Kafka's Java client. An unknown code is UNKNOWN_SERVER_ERROR, as there."""
    try:
        known = ErrorCode(code)
    except ValueError:
        known = ErrorCode.UNKNOWN_SERVER_ERROR
    name, default = _exceptions().get(known.name) or _exceptions()["UNKNOWN_SERVER_ERROR"]
    return JavaError(f"{ERRORS_PACKAGE}.{name}", message or default)


def check(code: int, message: str | None = None) -> None:
    """Raise the exception of an error code unless the code is NONE."""
    if code != ErrorCode.NONE:
        raise java_error(code, message)


def of_client(error: KafkaError) -> JavaError:
    """Return an error of our client as an exception of the Java client."""
    return java_error(error.code, error.message)


@cache
def _exceptions() -> dict[str, tuple[str, str]]:
    """Return the rows of the enumeration `Errors` of Kafka's Java client: code -> (class,
    default message)."""
    text = files(__package__).joinpath("java_errors.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t", _FIELDS - 1) for line in text.splitlines()[1:])
    return {code: (exception, message) for code, exception, message in rows}


def print_log(level: str, message: str, logger: str) -> None:
    """Write a line on standard error in the form of the log of Kafka's tools."""
    now_ms = wall_ms()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now_ms // 1000))
    sys.stderr.write(f"[{stamp},{now_ms % 1000:03}] {level} {message} ({logger})\n")
