"""The exception with which a pure package (one that does no I/O) refuses a request. Handlers put
its code into a field of the response."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode


class Refused(Exception):
    """A request is refused with the error code `code`. `message` is text for a user, or empty."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}" if self.message else self.code.name


class StoreFailed(Refused):
    """The metadata store has failed. The change may have been made, or may still be made."""
