"""The limit of a ClientHello, the first message of a TLS client.

OpenSSL reserves memory for all of a ClientHello when it knows the length, up to 128 KiB. So a
client could take much memory with a few bytes.
"""

from __future__ import annotations

from typing import Final

# The headers of the first record and of its message (RFC 8446, sections 5.1 and 4).
FIRST_BYTES: Final = 9
# A ClientHello has a few hundred bytes, or 2 KiB with a key of post-quantum cryptography.
MOST_BYTES: Final = 16 << 10
_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_RECORD_LENGTH: Final = slice(3, 5)
_MESSAGE_LENGTH: Final = slice(6, 9)
_MESSAGE_HEADER_BYTES: Final = 4


def refused_hello(first: bytes | bytearray) -> str | None:
    """Return the reason to refuse a client with these FIRST_BYTES bytes, or None. Bytes that are
    not of a ClientHello are not judged, because OpenSSL refuses them."""
    if first[0] != _HANDSHAKE:
        return None
    # OpenSSL would read the length from several records. No client divides its first four bytes.
    if int.from_bytes(first[_RECORD_LENGTH], "big") < _MESSAGE_HEADER_BYTES:
        return "a first record that is too short for a ClientHello"
    length = int.from_bytes(first[_MESSAGE_LENGTH], "big")
    if first[5] == _CLIENT_HELLO and length > MOST_BYTES:
        return f"a ClientHello of {length} bytes; the limit is {MOST_BYTES}"
    return None
