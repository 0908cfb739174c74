"""OpenSSL's reasons of failures, in plain words."""

from __future__ import annotations

import ssl
from typing import Final

_WORDS: Final = {
    "KEY_VALUES_MISMATCH": "a key that does not fit its certificate",
}


def reason_of(error: ssl.SSLError) -> str:
    """Return the reason of a failure in plain words, or OpenSSL's own name of it in lower case."""
    reason = error.reason or ""
    return _WORDS.get(reason) or reason.replace("_", " ").lower() or "an unknown failure of OpenSSL"
