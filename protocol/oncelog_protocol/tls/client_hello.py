"""The ClientHello, the first message of a TLS client: read as a whole, with a limit of its size.

OpenSSL needs 50 KiB for a connection from its first byte on, and reserves memory for all of a
ClientHello when it knows the length, up to 128 KiB. So a client could take much memory with a few
bytes. With this module, a client takes no more memory than it has sent bytes.
"""

from __future__ import annotations

from typing import Final

# A ClientHello has a few hundred bytes, or 2 KiB with a key of post-quantum cryptography.
MOST_BYTES: Final = 16 << 10
# The limit with the headers of its records. Clients send it in one record.
MOST_COLLECTED: Final = 2 * MOST_BYTES
# The headers of the first record and of its message (RFC 8446, sections 5.1 and 4).
FIRST_BYTES: Final = 9
_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_RECORD_HEADER_BYTES: Final = 5
_RECORD_LENGTH: Final = slice(3, 5)
_MESSAGE_LENGTH: Final = slice(6, 9)
_MESSAGE_HEADER_BYTES: Final = 4


class ClientHelloReader:
    """Collects the first bytes of a client, until its ClientHello is complete, or the bytes cannot
    be a ClientHello.

    The caller then gives `collected` to OpenSSL, which checks everything that `refusal` does not
    check.
    """

    __slots__ = ("_message_bytes", "_record", "collected", "has_ended")

    def __init__(self) -> None:
        self.collected = bytearray()
        # True if the client has closed its side.
        self.has_ended = False
        # The position of the first record that is not whole, and the number of the message's bytes
        # in the records before it.
        self._record = 0
        self._message_bytes = 0

    def add(self, data: bytes | bytearray | memoryview) -> None:
        """Take further bytes of the client."""
        self.collected += data

    @property
    def refusal(self) -> str | None:
        """Return the reason to refuse the client, or None."""
        if len(self.collected) < FIRST_BYTES or self.collected[0] != _HANDSHAKE:
            return None
        # A shorter record would divide the header of the message. No client does that.
        if int.from_bytes(self.collected[_RECORD_LENGTH], "big") < _MESSAGE_HEADER_BYTES:
            return "a first record that is too short for a ClientHello"
        if self.collected[_RECORD_HEADER_BYTES] != _CLIENT_HELLO:
            return None
        if self._length > MOST_BYTES:
            return f"a ClientHello of {self._length} bytes; the limit is {MOST_BYTES}"
        if len(self.collected) > MOST_COLLECTED and not self.is_whole():
            return f"a ClientHello in more than {MOST_COLLECTED} bytes of records"
        return None

    def is_whole(self) -> bool:
        """Return True if all records of the ClientHello have arrived, or if no further byte can
        make these bytes a ClientHello."""
        data = self.collected
        while len(data) >= self._record + _RECORD_HEADER_BYTES:
            length = int.from_bytes(data[self._record + 3 : self._record + 5], "big")
            # OpenSSL refuses a record of another kind, an empty one, and one that is too long.
            if data[self._record] != _HANDSHAKE or not 0 < length <= MOST_BYTES:
                return True
            end = self._record + _RECORD_HEADER_BYTES + length
            if len(data) < end:
                break
            self._record = end
            self._message_bytes += length
            if self._message_bytes >= _MESSAGE_HEADER_BYTES + self._length:
                return True
        return bool(data) and (data[0] != _HANDSHAKE or self._is_another_message)

    @property
    def _is_another_message(self) -> bool:
        data = self.collected
        return len(data) > _RECORD_HEADER_BYTES and data[_RECORD_HEADER_BYTES] != _CLIENT_HELLO

    @property
    def _length(self) -> int:
        """Return the length of the message, without its header."""
        return int.from_bytes(self.collected[_MESSAGE_LENGTH], "big")
