"""Keys and certificates as PEM text (RFC 7468)."""

from __future__ import annotations

import base64
import re
from typing import Final, NamedTuple

CERTIFICATE: Final = "CERTIFICATE"
PRIVATE_KEY: Final = "PRIVATE KEY"
ENCRYPTED_KEY: Final = "ENCRYPTED PRIVATE KEY"

_BEGIN: Final = "-----BEGIN "
_END: Final = "-----END "
_DASHES: Final = "-----"
_COLUMNS: Final = 64


class PemError(ValueError):
    """The text is not PEM. The message contains no part of the text except labels."""


class PemBlock(NamedTuple):
    """One block. `label` is the text after BEGIN."""

    label: str
    der: bytes

    def __repr__(self) -> str:
        return f"PemBlock({self.label!r}, {len(self.der)} bytes)"

    @property
    def is_key(self) -> bool:
        return self.label.endswith(PRIVATE_KEY)

    def text(self) -> str:
        """Return the block as PEM, in lines of 64 characters."""
        encoded = base64.b64encode(self.der).decode()
        lines = (encoded[at : at + _COLUMNS] for at in range(0, len(encoded), _COLUMNS))
        body = "\n".join(lines)
        return f"{_BEGIN}{self.label}{_DASHES}\n{body}\n{_END}{self.label}{_DASHES}\n"


def blocks(text: str) -> list[PemBlock]:
    """Return all blocks of a text. Other text before, between and after them is ignored.

    A block may have spaces in place of its newlines, as in a value of a properties file. Raises
    PemError for a block without an end, and for a block that is not base64.
    """
    found: list[PemBlock] = []
    start = text.find(_BEGIN)
    while start >= 0:
        label, closed, _ = text[start + len(_BEGIN) : start + 80].partition(_DASHES)
        if not closed:
            raise PemError("a line BEGIN without its dashes")
        body = start + len(_BEGIN) + len(label) + len(_DASHES)
        end_line = f"{_END}{label}{_DASHES}"
        end = text.find(end_line, body)
        if end < 0:
            raise PemError(f"a block {label} without its line END")
        found.append(PemBlock(" ".join(label.split()), _decoded(label, text[body:end])))
        start = text.find(_BEGIN, end + len(end_line))
    return found


def _decoded(label: str, body: str) -> bytes:
    if "Proc-Type:" in body:
        raise PemError(
            f"a block {label} that is encrypted in the old format of OpenSSL: convert it with "
            "`openssl pkcs8 -topk8`"
        )
    try:
        return base64.b64decode(re.sub(r"\s", "", body), validate=True)
    except ValueError:
        raise PemError(f"a block {label} that is not base64") from None
