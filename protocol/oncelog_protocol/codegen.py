"""Generates the source of a decoder or encoder from a message table, for exactly one version.

Consecutive fields of fixed size (and the length that follows them) become one struct call. Nested
structs are inlined. A varint of one byte costs one comparison. A property test compares the codecs
with slower ones that walk the table (tests/protocol/constructs.py).
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.schema import Schema


class Source:
    """Lines of Python under construction, and the globals that the lines use."""

    def __init__(self, schema: Schema, version: int, signature: str) -> None:
        if version not in schema.versions:
            raise ProtocolError(f"{schema.name} has no version {version}")
        self.title = f"{schema.name} v{version}"
        self.version = version
        self.flexible = version >= schema.flexible_since
        self.lines = [signature]
        self.depth = 1
        self.scope: dict[str, Any] = {}
        self._names = 0

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write the line `head`, and indent the lines that are written inside the block."""
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, prefix: str = "v") -> str:
        """Return a local name that is not in use."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: object) -> str:
        """Return the name of a global that holds the value."""
        for name, known in self.scope.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.scope[name] = value
        return name

    def layout(self, format: str, method: str) -> str:
        """Return the name of a global that holds `method` of the big-endian `struct.Struct` with
        this format."""
        name = f"{method}_{format.replace('?', 'Z')}"
        if name not in self.scope:
            self.scope[name] = getattr(_struct.Struct(">" + format), method)
        return name

    def compile(self, function: str) -> Any:
        """Execute the lines and return the function that they define. The function's attribute
        `source` holds the lines."""
        source = "\n".join(self.lines) + "\n"
        exec(compile(source, f"<{self.title} {function}>", "exec"), self.scope)
        made = self.scope[function]
        made.source = source
        return made
