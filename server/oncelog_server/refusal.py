"""A request that a core turns down, with Kafka's error code: mapped to a response field by its
handler."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode


class Refused(Exception):
    """`code` is what goes on the wire, `message` what a person should read (may be empty)."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}" if self.message else self.code.name
